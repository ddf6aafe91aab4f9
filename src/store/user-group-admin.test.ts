import fc from "fast-check";
import { expect, it } from "vitest";
import { compareIds } from "./user-group-admin.ts";

it("orders ids as their UTF-8 bytes are ordered", () => {
  const text = fc.string({ unit: fc.constantFrom("a", "b", "é", "\u07ff", "日", "\ue000", "\uffff", "👪", "𐀀") });
  fc.assert(
    fc.property(text, text, (a, b) => {
      expect(Math.sign(compareIds(a, b))).toBe(Buffer.compare(Buffer.from(a), Buffer.from(b)));
    }),
    { numRuns: 2000 },
  );
});
