const UNITS: { readonly [unit: string]: number } = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Parses `500ms`, `5s`, `2m`, `1h` or `30d` to milliseconds; undefined for anything else. */
export function parseDuration(text: string): number | undefined {
  const [, digits = "", unit = ""] = /^(\d{1,9})(ms|[smhd])$/.exec(text) ?? [];
  const factor = UNITS[unit];
  return factor === undefined ? undefined : Number(digits) * factor;
}
