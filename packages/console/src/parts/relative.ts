const UNITS = [
  ["year", 365 * 86_400],
  ["month", 30 * 86_400],
  ["day", 86_400],
  ["hour", 3600],
  ["minute", 60],
] as const;

const RELATIVE = new Intl.RelativeTimeFormat("en", { numeric: "always" });

/** Formats a time relative to another time, such as `3 hours ago`. Both times are in milliseconds. */
export function relativeText(atMs: number, fromMs: number): string {
  const seconds = (atMs - fromMs) / 1000;
  const [unit, size] = UNITS.find(([, each]) => Math.abs(seconds) >= each) ?? [];
  if (unit === undefined) return seconds > 10 ? "in less than a minute" : "just now";
  return RELATIVE.format(Math.round(seconds / size), unit);
}
