import { describe, expect, it } from "vitest";
import { afterReading } from "../protocol/after-reading.ts";
import { Arrivals } from "./arrivals.ts";

const OPEN = { destroyed: false };

function turn(): Promise<void> {
  return new Promise((resolve) => afterReading(resolve));
}

describe("arrivals", () => {
  it("new connections are served in order: one HTTP/2 connection or 16 HTTP/1.1 connections in each turn of the event loop", async () => {
    const arrivals = new Arrivals();
    const served: number[] = [];
    const add = (number: number, isHttp2: boolean) =>
      arrivals.add(OPEN, { client: "a", isHttp2 }, () => served.push(number));
    for (const number of [0, 1]) add(number, true);
    for (let number = 2; number < 20; number++) add(number, false);
    const upTo = (end: number) => Array.from({ length: end }, (_, number) => number);
    for (const end of [1, 2, 3, 19, 20]) {
      expect(served).toEqual(upTo(end));
      await turn();
    }
  });

  it("HTTP/2 connections are served at a rate of one per 16 turns of the event loop while more connections arrive", async () => {
    const arrivals = new Arrivals();
    let served = 0;
    for (let i = 0; i < 160; i++) {
      arrivals.add(OPEN, { client: "a", isHttp2: true }, () => served++);
      await turn();
    }
    expect(served).toBeLessThanOrEqual(11);
  });

  it("connections of several clients are served in rotation, one connection of each client at a time", async () => {
    const arrivals = new Arrivals();
    const served: string[] = [];
    const add = (client: string) => arrivals.add(OPEN, { client, isHttp2: true }, () => served.push(client));
    for (const client of ["a", "a", "a", "b", "b", "c"]) add(client);
    while (served.length < 6) await turn();
    expect(served).toEqual(["a", "a", "b", "c", "a", "b"]);
  });

  it("new connections do not wait for closed connections", async () => {
    const arrivals = new Arrivals();
    const closed = { destroyed: false };
    const served: string[] = [];
    arrivals.add(OPEN, { client: "a", isHttp2: true }, () => served.push("first"));
    for (let i = 0; i < 100; i++) arrivals.add(closed, { client: "a", isHttp2: true }, () => served.push("closed"));
    arrivals.add(OPEN, { client: "a", isHttp2: false }, () => served.push("last"));
    closed.destroyed = true;
    await turn();
    expect(served).toEqual(["first", "last"]);
  });
});
