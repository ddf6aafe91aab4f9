import { PassThrough } from "node:stream";
import { afterEach, expect, it, vi } from "vitest";
import { Progress } from "./progress.ts";

afterEach(() => void vi.restoreAllMocks());

/** Creates a `Progress` for 1,000 groups. `at` sets the clock (seconds), shows a position, and returns the output. */
function newProgress(isTTY: boolean, columns = 60) {
  const clock = { seconds: 100 };
  vi.spyOn(performance, "now").mockImplementation(() => clock.seconds * 1000);
  const stream = Object.assign(new PassThrough(), { isTTY, columns });
  const progress = new Progress(stream, "imported");
  const at = (seconds: number, groups: number, fraction: number | null = groups / 1000) => {
    clock.seconds = 100 + seconds;
    progress.show({ groups, fraction: fraction ?? undefined });
    return String(stream.read() ?? "");
  };
  return { progress, stream, at };
}

it("If a terminal does not report its width, Progress does not shorten the line", () => {
  const { at } = newProgress(true, 0);
  expect(at(1, 10)).toBe("\rimported 10 groups, 10/s, 1 %");
});

it("If the output is not a terminal, Progress writes the rate and the remaining time every ten seconds", () => {
  const { progress, stream, at } = newProgress(false);
  expect([at(0, 0), at(9.9, 99), at(10, 100)]).toEqual(["", "", "imported 100 groups, 10/s, 10 %, 1 min 30 s left\n"]);
  expect([at(19, 190), at(20, 400), at(29, 990)]).toEqual(["", "imported 400 groups, 20/s, 40 %, 30 s left\n", ""]);
  expect(at(30, 500, null)).toBe("imported 500 groups, 17/s\n");
  progress.pause(999, "OVERLOADED");
  progress.pause(61_000, "RATE_LIMITED");
  expect(String(stream.read())).toBe("waiting 1 min 1 s: RATE_LIMITED\n");
  expect(at(40, 500)).toBe("imported 500 groups, 13/s, 50 %, 40 s left, waiting 1 min 1 s: RATE_LIMITED\n");
  progress.clear();
  expect(stream.read()).toBe(null);
});

it("Progress on a terminal updates a line at most five times a second, cuts the line to the width, and clears the line", () => {
  const { progress, stream, at } = newProgress(true);
  expect([at(0, 0), at(0.1, 1), at(0.2, 2), at(0.3, 3)]).toEqual(["", "", "\rimported 2 groups, 10/s, 0 %", ""]);
  expect(at(4, 100)).toBe("\rimported 100 groups, 25/s, 10 %, 36 s left");
  expect(at(5, 900)).toBe("\rimported 900 groups, 180/s, 90 %, 1 s left");
  progress.pause(2000, "x".repeat(80));
  expect(String(stream.read())).toBe(`\rwaiting 2 s: ${"x".repeat(59 - 13)}`);
  progress.clear();
  expect(String(stream.read())).toBe(`\r${" ".repeat(59)}\r`);
  progress.clear();
  expect(stream.read()).toBe(null);
});

it("If a run continues an earlier run, Progress estimates the remaining time from the speed of the later run", () => {
  const { at } = newProgress(false);
  // An earlier run has processed half of the groups.
  expect([at(0, 0, 0.5), at(10, 100, 0.75)]).toEqual(["", "imported 100 groups, 10/s, 75 %, 10 s left\n"]);
});
