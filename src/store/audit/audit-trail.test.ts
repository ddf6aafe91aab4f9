import { describe, expect, it } from "vitest";
import { type AuditPosition, comparePositions, endFor, formatPosition, parsePosition } from "./audit-trail.ts";

const at = (ms: number, sequence: number, stream: number): AuditPosition => ({ ms, sequence, stream });

describe("positions of events", () => {
  it("are text and back", () => {
    for (const position of [at(0, 1, 0), at(1_700_000_000_000, 12, 3844)]) {
      expect(parsePosition(formatPosition(position))).toEqual(position);
    }
    expect(formatPosition(at(5, 1, 2))).toBe("5-1.2");
    for (const text of ["", "5-1", "5-1.", "5.1-2", "-5-1.2", "5-1.2\n", "a-1.2", "5-1.12345", "0-0.0"]) {
      expect(parsePosition(text), text).toBeUndefined();
    }
  });

  it("are in order of time, the newest first, then of streams", () => {
    const inOrder = [at(9, 0, 5), at(8, 7, 1), at(8, 2, 0), at(8, 2, 1), at(8, 1, 0), at(7, 9, 0)];
    const mixed = [4, 2, 0, 5, 3, 1].map((i) => inOrder[i] as AuditPosition);
    expect(mixed.sort(comparePositions)).toEqual(inOrder);
  });

  // Each event as XREVRANGE sees it: by the id that a stream is read up to.
  const isRead = ({ ms, sequence, stream }: AuditPosition, after: AuditPosition | undefined, before?: number) => {
    const end = endFor(stream, after, before);
    if (end === "+") return true;
    const [endMs = 0, endSequence = Number.POSITIVE_INFINITY] = end.replace("(", "").split("-").map(Number);
    const order = ms - endMs || sequence - endSequence;
    return end.startsWith("(") ? order < 0 : order <= 0;
  };

  it("tell what is to be read of each stream behind one of them: what comes after it, and nothing else", () => {
    const all = [6, 7, 8].flatMap((ms) => [0, 1, 2].flatMap((seq) => [0, 1, 2].map((stream) => at(ms, seq, stream))));
    for (const position of all) expect(isRead(position, undefined)).toBe(true);
    for (const after of all) {
      for (const position of all) {
        expect(isRead(position, after)).toBe(comparePositions(position, after) > 0);
        for (const before of [5, 6, 7, 8, 9]) {
          const expected = comparePositions(position, after) > 0 && position.ms < before;
          expect(isRead(position, after, before), JSON.stringify({ position, after, before })).toBe(expected);
        }
      }
    }
  });
});
