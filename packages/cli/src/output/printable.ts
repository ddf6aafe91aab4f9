/**
 * What a terminal may take for a command, or what changes the order of the text around it: control characters of ASCII
 * and ISO 6429, separators of lines, marks of direction (https://www.unicode.org/reports/tr9/), lone surrogates.
 */
const UNSAFE =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what has to be found
  /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]|\p{Surrogate}/gu;

/** A foreign text, made safe for a terminal: unsafe characters are written as `\x1b` or `\u202e`. */
export function printable(text: string): string {
  return text.replace(UNSAFE, (unsafe) => {
    const hex = (unsafe.codePointAt(0) ?? 0).toString(16);
    return hex.length > 2 ? `\\u${hex.padStart(4, "0")}` : `\\x${hex.padStart(2, "0")}`;
  });
}

/** JSON on one line, which is safe for a terminal as well. */
export function jsonLine(value: unknown): string {
  return JSON.stringify(value).replace(
    UNSAFE,
    (unsafe) => `\\u${(unsafe.codePointAt(0) ?? 0).toString(16).padStart(4, "0")}`,
  );
}
