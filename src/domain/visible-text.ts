/** Code points that are not shown: controls, formatting, separators of lines, fillers, variation selectors, a blank symbol. */
const HIDDEN = "\\p{Cc}\\p{Cf}\\p{Zl}\\p{Zp}\\p{Default_Ignorable_Code_Point}\\u2800";

/** The first code point that a reader does not see. One search: the calls of all groups pass it. */
const INVISIBLE = new RegExp(`^\\p{Z}|[${HIDDEN}]|\\p{Z}$`, "u");

/** Whether a reader sees the whole text: it has no code point that is not shown, and neither begins nor ends with a space. */
export function isVisible(text: string): boolean {
  return !INVISIBLE.test(text);
}

/** Why a text is not visible, such as `must not end with U+0020 SPACE`; undefined if it is. */
export function hiddenFault(text: string): string | undefined {
  const found = INVISIBLE.exec(text);
  if (!found) return undefined;
  const [point] = found;
  const isAtEnd = found.index + point.length === text.length;
  return `must not ${found.index === 0 ? "begin with" : isAtEnd ? "end with" : "hold"} ${nameOf(point)}`;
}

function nameOf(point: string): string {
  const hex = (point.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0");
  return `U+${hex} ${NAMES.get(hex) ?? "(not visible)"}`;
}

/** Unicode's names of what is typed and pasted; of controls their aliases. */
const NAMES: ReadonlyMap<string, string> = new Map(
  `0000 NULL
0007 ALERT
0008 BACKSPACE
0009 CHARACTER TABULATION
000A LINE FEED
000B LINE TABULATION
000C FORM FEED
000D CARRIAGE RETURN
001B ESCAPE
0020 SPACE
007F DELETE
0085 NEXT LINE
009B CONTROL SEQUENCE INTRODUCER
00A0 NO-BREAK SPACE
00AD SOFT HYPHEN
034F COMBINING GRAPHEME JOINER
061C ARABIC LETTER MARK
115F HANGUL CHOSEONG FILLER
1160 HANGUL JUNGSEONG FILLER
180E MONGOLIAN VOWEL SEPARATOR
2002 EN SPACE
2003 EM SPACE
2007 FIGURE SPACE
2008 PUNCTUATION SPACE
2009 THIN SPACE
200A HAIR SPACE
200B ZERO WIDTH SPACE
200C ZERO WIDTH NON-JOINER
200D ZERO WIDTH JOINER
200E LEFT-TO-RIGHT MARK
200F RIGHT-TO-LEFT MARK
2028 LINE SEPARATOR
2029 PARAGRAPH SEPARATOR
202A LEFT-TO-RIGHT EMBEDDING
202B RIGHT-TO-LEFT EMBEDDING
202C POP DIRECTIONAL FORMATTING
202D LEFT-TO-RIGHT OVERRIDE
202E RIGHT-TO-LEFT OVERRIDE
202F NARROW NO-BREAK SPACE
205F MEDIUM MATHEMATICAL SPACE
2060 WORD JOINER
2061 FUNCTION APPLICATION
2062 INVISIBLE TIMES
2063 INVISIBLE SEPARATOR
2064 INVISIBLE PLUS
2066 LEFT-TO-RIGHT ISOLATE
2067 RIGHT-TO-LEFT ISOLATE
2068 FIRST STRONG ISOLATE
2069 POP DIRECTIONAL ISOLATE
2800 BRAILLE PATTERN BLANK
3000 IDEOGRAPHIC SPACE
3164 HANGUL FILLER
FE0E VARIATION SELECTOR-15
FE0F VARIATION SELECTOR-16
FEFF ZERO WIDTH NO-BREAK SPACE
FFA0 HALFWIDTH HANGUL FILLER`
    .split("\n")
    .map((line) => [line.slice(0, 4), line.slice(5)]),
);
