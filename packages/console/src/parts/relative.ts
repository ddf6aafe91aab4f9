const UNITS = [
  ["year", 365 * 86_400],
  ["month", 30 * 86_400],
  ["day", 86_400],
  ["hour", 3600],
  ["minute", 60],
] as const;

const RELATIVE = new Intl.RelativeTimeFormat("en", { numeric: "always" });

/** Formats `atMs` relative to `fromMs`, such as `3 hours ago`. Both are times in milliseconds since 1970. */
export function relativeText(atMs: number, fromMs: number): string {
  const seconds = (atMs - fromMs) / 1000;
  const [unit, size] = UNITS.find(([, each]) => Math.abs(seconds) >= each) ?? [];
  if (unit === undefined) return seconds > 10 ? "in less than a minute" : "just now";
  return RELATIVE.format(Math.round(seconds / size), unit);
}
