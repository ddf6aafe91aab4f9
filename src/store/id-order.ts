/**
 * Compares two ids by their UTF-8 bytes, as Redis orders them. JavaScript compares UTF-16 units, which differs where a
 * surrogate meets a unit above it.
 */
export function compareIds(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    const [x, y] = [a.charCodeAt(i), b.charCodeAt(i)];
    if (x !== y) return rank(x) - rank(y);
  }
  return a.length - b.length;
}

/** The order of a UTF-16 unit: surrogates, which stand for the characters above all others, come last. */
function rank(unit: number): number {
  return unit >= 0xd800 && unit <= 0xdfff ? unit + 0x10000 : unit;
}
