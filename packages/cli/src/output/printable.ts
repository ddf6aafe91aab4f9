/** Characters that control a terminal, reorder text (https://www.unicode.org/reports/tr9/) or are invisible. */
const UNSAFE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;

/** Escapes unsafe characters and line breaks as `\x1b`, `\u202e` or `\u{e0001}`. */
export function printable(text: string): string {
  return text.replace(UNSAFE, (unsafe) => {
    const hex = (unsafe.codePointAt(0) ?? 0).toString(16);
    if (hex.length > 4) return `\\u{${hex}}`;
    return hex.length > 2 ? `\\u${hex.padStart(4, "0")}` : `\\x${hex.padStart(2, "0")}`;
  });
}

/** Escapes unsafe characters, except line breaks. */
export function printableLines(text: string): string {
  return text.split("\n").map(printable).join("\n");
}

/** Formats a value as one line of JSON. Escapes unsafe characters. */
export function jsonLine(value: unknown): string {
  const escaped = (unit: string) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return JSON.stringify(value).replace(UNSAFE, (unsafe) => unsafe.split("").map(escaped).join(""));
}
