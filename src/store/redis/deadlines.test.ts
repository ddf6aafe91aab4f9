import { setImmediate } from "node:timers/promises";
import { MessageChannel } from "node:worker_threads";
import { describe, expect, it } from "vitest";
import { pause, waitFor } from "../../../test/support/wait.ts";
import { RedisClock, TimedCall, Timeouts } from "./deadlines.ts";

class Call extends TimedCall {
  readonly name: string;
  readonly #expired: string[];
  constructor(name: string, expired: string[]) {
    super();
    this.name = name;
    this.#expired = expired;
  }
  expire(): void {
    this.#expired.push(this.name);
  }
}

function begin(timeouts: Timeouts, names: string, expired: string[]): Call[] {
  return [...names].map((name) => {
    const call = new Call(name, expired);
    timeouts.add(call, performance.now());
    return call;
  });
}

/** Keeps the process from hearing anything. */
function block(ms: number): void {
  const end = performance.now() + ms;
  while (performance.now() < end);
}

describe("calls that take too long", () => {
  it("expire in their order, each once, and the others never", async () => {
    const timeouts = new Timeouts(30);
    const expired: string[] = [];
    const calls = begin(timeouts, "abcdefg", expired);
    // From the middle, the beginning and the end of the list.
    for (const name of "dag") timeouts.remove(calls.find((call) => call.name === name) as Call);
    expect(expired).toEqual([]);
    await waitFor("the others expire", () => expired.length === 4);
    await pause(100);
    expect(expired.join("")).toBe("bcef");
  });

  it("are looked for again after there were none", async () => {
    const timeouts = new Timeouts(20);
    const expired: string[] = [];
    for (const name of "ab") {
      begin(timeouts, name, expired);
      await waitFor("it expires", () => expired.at(-1) === name);
    }
  });

  it("do not expire before their time, and tell how much is left", async () => {
    const timeouts = new Timeouts(200);
    const expired: string[] = [];
    const started = performance.now();
    const [call] = begin(timeouts, "a", expired);
    const left = timeouts.left(call as Call);
    expect(left).toBeLessThanOrEqual(200);
    expect(left).toBeGreaterThan(100);
    await waitFor("it expires", () => expired.length === 1);
    expect(performance.now() - started).toBeGreaterThanOrEqual(200);
  });
});

describe("while the process is busy", () => {
  it("the time of calls stands still", async () => {
    const timeouts = new Timeouts(200);
    const expired: string[] = [];
    begin(timeouts, "a", expired);
    for (let turn = 0; turn < 4; turn++) {
      block(150);
      await setImmediate();
      await pause(0);
    }
    expect(expired).toEqual([]);
    await waitFor("it expires", () => expired.length === 1);
  });

  it("at any time of a turn, the time of calls stands still", async () => {
    for (let round = 0; round < 50; round++) {
      const timeouts = new Timeouts(100);
      const expired: string[] = [];
      const [call] = begin(timeouts, "a", expired);
      // Before, in or behind the turn in which it is looked for them.
      await pause(round % 10);
      if (round % 2) await setImmediate();
      block(120);
      await setImmediate();
      await setImmediate();
      expect(expired).toEqual([]);
      timeouts.remove(call as Call);
    }
  });

  it("a call whose answer has come meanwhile does not expire", async () => {
    const timeouts = new Timeouts(10);
    const expired: string[] = [];
    const [call] = begin(timeouts, "a", expired);
    // Comes with the reads of the turn that follows, behind the timers.
    const { port1, port2 } = new MessageChannel();
    port1.once("message", () => timeouts.remove(call as Call));
    port2.postMessage("answer");
    block(100);
    await pause(100);
    port1.close();
    expect(expired).toEqual([]);
  });
});

describe("what is known of Redis' clock", () => {
  it("is never ahead of Redis' clock, however long an answer took", () => {
    const clock = new RedisClock();
    // Redis is 1,000,000 ahead, and looked at its clock at 150.
    clock.learn(1_000_150, 100, 200);
    expect(clock.at(300)).toBe("1000250");
  });

  it("comes nearer with a faster answer, and stays there with a slower one", () => {
    const clock = new RedisClock();
    clock.learn(1_000_150, 100, 200);
    clock.learn(1_000_301, 300, 302);
    expect(clock.at(400)).toBe("1000399");
    clock.learn(1_000_500, 400, 900);
    expect(clock.at(1000)).toBe("1000999");
  });

  it("follows a clock that is set forward or back", () => {
    const clock = new RedisClock();
    clock.learn(1_000_150, 149, 151);
    clock.learn(5_000_250, 249, 251);
    expect(clock.at(300)).toBe("5000299");
    clock.learn(500_350, 349, 351);
    expect(clock.at(400)).toBe("500399");
    clock.learn(500_450, 450, 450);
    expect(clock.at(500)).toBe("500500");
  });
});
