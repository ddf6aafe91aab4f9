import { expect, it } from "vitest";
import { hiddenFault, isVisible } from "./visible-text.ts";

it("isVisible rejects every invisible code point, and every space at the start or end", () => {
  const hidden = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{DI}\u2800]/u;
  const wrong: string[] = [];
  for (let code = 0; code <= 0x10ffff; code++) {
    const point = String.fromCodePoint(code);
    if (!point.isWellFormed()) continue;
    const isShown = !hidden.test(point);
    const mayEnd = isShown && !/\s/.test(point);
    const seen = [`x${point}x`, point, `${point}x`, `x${point}`].map(isVisible);
    if (seen.join() !== [isShown, mayEnd, mayEnd, mayEnd].join()) wrong.push(code.toString(16));
  }
  expect(wrong).toEqual([]);
});

it.each([
  [" a", "begin with U+0020 SPACE"],
  ["a\u3000", "end with U+3000 IDEOGRAPHIC SPACE"],
  ["a b\u200bc ", "contain U+200B ZERO WIDTH SPACE"],
  ["\ufeff", "begin with U+FEFF ZERO WIDTH NO-BREAK SPACE"],
  ["👪\u{e0041}👪", "contain U+E0041 (not visible)"],
])("hiddenFault returns the position and the name of the forbidden code point in %j", (text, fault) => {
  expect(isVisible(text)).toBe(false);
  expect(hiddenFault(text)).toContain(fault);
});

it.each(["", "a", "a b", "株式会社　テスト", "e\u0301", "👪"])("isVisible accepts %j", (text) => {
  expect(isVisible(text)).toBe(true);
});
