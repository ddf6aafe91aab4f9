import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { describe, expect, it } from "vitest";
import { MetricsSampleSchema } from "../../../../gen/usergroup/admin/v1/metrics_pb.ts";
import {
  clockText,
  durationLine,
  endOf,
  lastMinute,
  linesByName,
  minutesOf,
  msText,
  numberText,
  rateLine,
} from "./history.ts";

const START = Date.parse("2027-01-31T12:00:00Z");

/** Creates the sample that ends `i` times ten seconds after `START`. */
function sample(i: number, given: { calls?: number; errors?: { [reason: string]: number }; p99?: number } = {}) {
  const { p99, ...numbers } = given;
  return create(MetricsSampleSchema, {
    endTime: timestampFromMs(START + i * 10_000),
    ...numbers,
    p99: p99 === undefined ? undefined : { seconds: 0n, nanos: p99 * 1_000_000 },
  });
}

describe("chart lines", () => {
  const samples = [
    sample(1, { calls: 20, errors: { A: 10, B: 1 }, p99: 4 }),
    sample(2, {}),
    sample(3, { calls: 5, errors: { B: 20 }, p99: 12.5 }),
  ];

  it("lines show rates per second, or durations with gaps for missing values; each error reason has its own line", () => {
    expect(rateLine("calls", samples, ({ calls }) => calls).values).toEqual([2, 0, 0.5]);
    expect(durationLine("p99", samples, ({ p99 }) => p99).values).toEqual([4, null, 12.5]);
    expect(linesByName(samples, ({ errors }) => errors)).toEqual([
      { name: "B", values: [0.1, 0, 2] },
      { name: "A", values: [1, 0, 0] },
    ]);
    expect(linesByName(samples, () => undefined)).toEqual([]);
  });

  it("a chart has at most six lines: if there are more names, the last line is the sum of the rarest names", () => {
    const errors = Object.fromEntries(Array.from({ length: 9 }, (_, i) => [`R${i}`, 90 - i * 10]));
    const lines = linesByName([sample(1, { errors })], (each) => each.errors);
    expect(lines.map(({ name }) => name)).toEqual(["R0", "R1", "R2", "R3", "R4", "4 others"]);
    expect(lines.at(-1)?.values).toEqual([10]);
    const six = Object.fromEntries(Object.entries(errors).slice(0, 6));
    expect(linesByName([sample(1, { errors: six })], (each) => each.errors)).toHaveLength(6);
  });

  it("minutesOf summarizes lines as the mean of each minute, with the latest minute first", () => {
    const many = Array.from({ length: 8 }, (_, i) => sample(i + 1, { calls: i < 6 ? 60 : 120 }));
    const lines = [rateLine("calls", many, ({ calls }) => calls), durationLine("p99", many, ({ p99 }) => p99)];
    const minutes = minutesOf(many.map(endOf), lines);
    expect(minutes.map(({ end, means }) => [clockText(end), means])).toEqual([
      ["12:02:00", [12, null]],
      ["12:01:00", [6, null]],
    ]);
  });
});

it("lastMinute summarizes only the last six samples", () => {
  const samples = Array.from({ length: 9 }, (_, i) =>
    sample(i, { calls: i < 3 ? 1000 : 10, errors: i === 8 ? { A: 6 } : {}, p99: i === 4 ? 50 : 5 }),
  );
  expect(lastMinute(samples)).toEqual({ callsPerSecond: 1, failedShare: 0.1, p99: 50, service: undefined });
  expect(lastMinute([])).toEqual({ callsPerSecond: 0, failedShare: 0, p99: null, service: undefined });
});

it("numberText and msText format numbers and durations for labels", () => {
  expect([0, 0.056, 3.125, 12.34, 1234.5].map(numberText)).toEqual(["0", "0.06", "3.13", "12.3", "1,235"]);
  expect([0, 0.25, 4.2, 150, 1500].map(msText)).toEqual(["0 ms", "250 µs", "4.2 ms", "150 ms", "1.5 s"]);
});
