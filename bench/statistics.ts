export interface Summary {
  readonly median: number;
  readonly low: number;
  readonly high: number;
}

/** Returns the median and the quartiles. All three are NaN if there are no figures. */
export function summarise(figures: readonly number[]): Summary {
  const sorted = [...figures].sort((a, b) => a - b);
  return { median: quantile(sorted, 0.5), low: quantile(sorted, 0.25), high: quantile(sorted, 0.75) };
}

export function median(figures: readonly number[]): number {
  return summarise(figures).median;
}

/** Returns the lower quartile. Disturbances only increase figures, so low figures are the least disturbed. */
export function lowerQuartile(figures: readonly number[]): number {
  return summarise(figures).low;
}

export function quantile(sorted: readonly number[], share: number): number {
  const at = (sorted.length - 1) * share;
  const below = sorted[Math.floor(at)] ?? Number.NaN;
  const above = sorted[Math.ceil(at)] ?? Number.NaN;
  return below + (above - below) * (at - Math.floor(at));
}
