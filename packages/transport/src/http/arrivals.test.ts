import { describe, expect, it } from "vitest";
import { afterReading } from "../protocol/after-reading.ts";
import { Arrivals } from "./arrivals.ts";

const OPEN = { destroyed: false };

function turn(): Promise<void> {
  return new Promise((resolve) => afterReading(resolve));
}

describe("new connections", () => {
  it("are served in order: one HTTP/2 connection or 16 HTTP/1.1 connections in each turn of the event loop", async () => {
    const arrivals = new Arrivals();
    const served: number[] = [];
    const add = (number: number, isHttp2: boolean) => arrivals.add(OPEN, isHttp2, () => served.push(number));
    for (const number of [0, 1]) add(number, true);
    for (let number = 2; number < 20; number++) add(number, false);
    const upTo = (end: number) => Array.from({ length: end }, (_, number) => number);
    for (const end of [1, 2, 18, 20]) {
      expect(served).toEqual(upTo(end));
      await turn();
    }
  });

  it("do not wait for closed connections", async () => {
    const arrivals = new Arrivals();
    const closed = { destroyed: false };
    const served: string[] = [];
    arrivals.add(OPEN, true, () => served.push("first"));
    for (let i = 0; i < 100; i++) arrivals.add(closed, true, () => served.push("closed"));
    arrivals.add(OPEN, false, () => served.push("last"));
    closed.destroyed = true;
    await turn();
    expect(served).toEqual(["first", "last"]);
  });
});
