/** Control and format characters, line separators, fillers, variation selectors, and the blank Braille pattern. */
const HIDDEN = "\\p{Cc}\\p{Cf}\\p{Zl}\\p{Zp}\\p{Default_Ignorable_Code_Point}\\u2800";

/**
 * Matches the first invisible code point of a text, or a space at its start or end. Every call runs this check, and one
 * expression is faster than three.
 */
const INVISIBLE = new RegExp(`^\\p{Z}|[${HIDDEN}]|\\p{Z}$`, "u");

/** Returns whether a text contains no invisible code point, and neither starts nor ends with a space. */
export function isVisible(text: string): boolean {
  return !INVISIBLE.test(text);
}

/**
 * Describes the first fault of a text, such as `must not end with U+0020 SPACE`. Returns undefined if the text is
 * visible.
 */
export function hiddenFault(text: string): string | undefined {
  const found = INVISIBLE.exec(text);
  if (!found) return undefined;
  const [point] = found;
  const isAtEnd = found.index + point.length === text.length;
  return `must not ${found.index === 0 ? "begin with" : isAtEnd ? "end with" : "contain"} ${nameOf(point)}`;
}

function nameOf(point: string): string {
  const hex = (point.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0");
  return `U+${hex} ${NAMES.get(hex) ?? "(not visible)"}`;
}

/** Unicode names of the code points that users most often paste by mistake. */
const NAMES: ReadonlyMap<string, string> = new Map([
  ["0000", "NULL"],
  ["0009", "CHARACTER TABULATION"],
  ["000A", "LINE FEED"],
  ["000D", "CARRIAGE RETURN"],
  ["0020", "SPACE"],
  ["00A0", "NO-BREAK SPACE"],
  ["00AD", "SOFT HYPHEN"],
  ["200B", "ZERO WIDTH SPACE"],
  ["200C", "ZERO WIDTH NON-JOINER"],
  ["200D", "ZERO WIDTH JOINER"],
  ["200E", "LEFT-TO-RIGHT MARK"],
  ["200F", "RIGHT-TO-LEFT MARK"],
  ["2028", "LINE SEPARATOR"],
  ["3000", "IDEOGRAPHIC SPACE"],
  ["FEFF", "ZERO WIDTH NO-BREAK SPACE"],
]);
