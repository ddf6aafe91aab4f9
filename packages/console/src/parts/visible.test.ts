import { expect, it } from "vitest";
import { cutText, visibleParts } from "./visible.tsx";

const shown = (text: string) =>
  visibleParts(text)
    .map((part) => (part.isCodePoint ? `[${part.text}]` : part.text))
    .join("");

it("visibleParts replaces invisible and reordering characters by code points, and keeps other characters", () => {
  expect(shown("evil\u202Egpj.exe")).toBe("evil[U+202E]gpj.exe");
  expect(shown("a\u200Bb\u00ADc\uFEFF")).toBe("a[U+200B]b[U+00AD]c[U+FEFF]");
  expect(shown("a\u00A0b\u3000c\u2800\u3164")).toBe("a[U+00A0]b[U+3000]c[U+2800][U+3164]");
  expect(shown("tab\tline\n\u{E0041}")).toBe("tab[U+0009]line[U+000A][U+E0041]");
  expect(shown(" a b ")).toBe("[U+0020]a b[U+0020]");
  expect(shown("Zürich 東京 علي 👍")).toBe("Zürich 東京 علي 👍");
});

it("cutText removes the middle of a long id, and splits no character", () => {
  expect(cutText("a".repeat(40))).toBe("a".repeat(40));
  const cut = cutText(`${"👍".repeat(30)}${"b".repeat(30)}`);
  expect(cut).toBe(`${"👍".repeat(24)}…${"b".repeat(15)}`);
});
