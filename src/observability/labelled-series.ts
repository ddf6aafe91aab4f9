/** The label values of a series, by label name. */
export type Labels = { readonly [name: string]: string };

/** What a metric holds for each set of label values, one series for each. */
export class LabelledSeries<T> {
  readonly #labelNames: readonly string[];
  readonly #make: (labels: Labels) => T;
  readonly #series = new Map<string, T>();

  /** @param make a new series */
  constructor(labelNames: readonly string[], make: (labels: Labels) => T) {
    this.#labelNames = labelNames;
    this.#make = make;
  }

  /** The series of label values, in the order of the label names. */
  get(values: readonly string[]): T {
    const key = JSON.stringify(values);
    let series = this.#series.get(key);
    if (series === undefined) {
      series = this.#make(Object.fromEntries(this.#labelNames.map((name, i) => [name, values[i] ?? ""])));
      this.#series.set(key, series);
    }
    return series;
  }

  /** Every series, the oldest first. */
  all(): readonly T[] {
    return [...this.#series.values()];
  }
}
