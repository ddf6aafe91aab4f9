import { setImmediate } from "node:timers/promises";
import { MessageChannel } from "node:worker_threads";
import { pause, waitFor } from "@user-group-service/testing/wait";
import { afterEach, describe, expect, it, vi } from "vitest";
import { redisOf } from "../../../test/support/redis-of.ts";
import { RecordUnreadable, StoreUnavailable } from "../../domain/errors.ts";
import { ADD_MEMBER } from "../scripts.ts";
import { type StoreClient, type StoreClientOptions, type StoreObserver, type TimedCall, Timeouts } from "./client.ts";
import { openEmbedded } from "./embedded/embedded.ts";

const MEMBER = { key: "set", member: "member" };

const clients: StoreClient[] = [];
afterEach(() => {
  vi.restoreAllMocks();
  for (const client of clients.splice(0)) client.close();
});

async function open(options: StoreClientOptions): Promise<StoreClient> {
  const client = await openEmbedded(options);
  clients.push(client);
  return client;
}

it("StoreClient reports a round trip to the observer once, even if its command fails after the timeout", async () => {
  const seen: Parameters<StoreObserver>[0][] = [];
  const client = await open({ timeoutMs: 10, observe: (roundTrip) => seen.push(roundTrip) });
  let fail: (error: Error) => void = () => {};
  vi.spyOn(redisOf(client), "get").mockReturnValue(new Promise((_, reject) => (fail = reject)));
  const run = client.run("slow", "get", ["key"]);
  await expect(run).rejects.toThrow("the store is unavailable");
  fail(new Error("socket timeout"));
  await setImmediate();
  expect(seen).toMatchObject([{ operation: "slow", failed: true }]);
});

it("StoreClient maps WRONGTYPE to RecordUnreadable, and other errors to StoreUnavailable without secret arguments", async () => {
  const client = await open({ timeoutMs: 1000 });
  const fail = (text: string) => {
    const error = Object.assign(new Error(text), { name: "ReplyError", command: { args: ["secret"] } });
    vi.spyOn(redisOf(client), "get").mockReturnValueOnce(Promise.reject(error));
    return client.run("failing", "get", ["key"]);
  };
  await expect(fail("WRONGTYPE of a key")).rejects.toBeInstanceOf(RecordUnreadable);
  const error = (await fail("READONLY replica").catch((caught: unknown) => caught)) as StoreUnavailable;
  expect(error).toBeInstanceOf(StoreUnavailable);
  expect(error.cause).toMatchObject({ message: "READONLY replica" });
  expect(error.cause).not.toHaveProperty("command");
});

describe("changes after a jump of Redis' clock", () => {
  const HOUR_MS = 3_600_000;
  const change = async (client: StoreClient) => {
    const sent = vi.spyOn(redisOf(client), "runScript");
    const [outcome] = await client.change("add", ADD_MEMBER, { ...MEMBER, member: `member ${Math.random()}` });
    expect(outcome).toBe("done");
    const { length } = sent.mock.calls;
    sent.mockRestore();
    return length;
  };

  // The timeout is longer than a change takes on a busy machine, and shorter than each jump of the clock.
  const timeoutMs = 20_000;

  it.each([HOUR_MS, -HOUR_MS, 25_000, 24 * 365 * HOUR_MS])(
    "a change after a jump by %i ms is repeated at most once",
    async (jump) => {
      const client = await open({ timeoutMs });
      await client.change("add", ADD_MEMBER, { ...MEMBER, key: "another" });
      const now = Date.now;
      expect(await change(client)).toBe(1);
      vi.spyOn(Date, "now").mockImplementation(() => now() + jump);
      expect(await change(client)).toBe(jump > 0 ? 2 : 1);
      for (let i = 0; i < 5; i++) expect(await change(client)).toBe(1);
      vi.restoreAllMocks();
      expect(await change(client)).toBe(jump > 0 ? 1 : 2);
      expect(await change(client)).toBe(1);
    },
  );

  it("a change has the outcome not_made if the clock jumps before every attempt", async () => {
    const client = await open({ timeoutMs });
    await client.change("add", ADD_MEMBER, { ...MEMBER, key: "another" });
    const now = Date.now;
    let jumps = 0;
    vi.spyOn(Date, "now").mockImplementation(() => now() + HOUR_MS * ++jumps);
    const call = client.change("add", ADD_MEMBER, MEMBER);
    const error = await call.catch((caught: unknown) => caught as StoreUnavailable);
    expect(error).toBeInstanceOf(StoreUnavailable);
    expect(String((error as StoreUnavailable).cause)).toMatch(/after its deadline/);
    expect((error as StoreUnavailable).outcome).toBe("not_made");
    expect(await redisOf(client).exists("set")).toBe(0);
  });
});

interface Call extends TimedCall {
  readonly name: string;
}

function begin(timeouts: Timeouts, names: string, expired: string[]): Call[] {
  return [...names].map((name) => {
    const call: Call = {
      name,
      previous: undefined,
      next: undefined,
      end: 0,
      expire() {
        timeouts.remove(call);
        expired.push(name);
      },
    };
    call.end = timeouts.add(call, performance.now());
    return call;
  });
}

function block(ms: number): void {
  const end = performance.now() + ms;
  while (performance.now() < end);
}

describe("timeouts of calls", () => {
  it("the timeouts expire each call once, in the order of the starts, and expire no removed call", async () => {
    const timeouts = new Timeouts(30);
    const expired: string[] = [];
    const calls = begin(timeouts, "abcdefg", expired);
    for (const name of "dag") timeouts.remove(calls.find((call) => call.name === name) as Call);
    expect(expired).toEqual([]);
    await waitFor("the others expire", () => expired.length === 4);
    await pause(100);
    expect(expired.join("")).toBe("bcef");
  });

  it("the timeouts expire a call that was added to an empty list", async () => {
    const timeouts = new Timeouts(20);
    const expired: string[] = [];
    for (const name of "ab") {
      begin(timeouts, name, expired);
      await waitFor("it expires", () => expired.at(-1) === name);
    }
  });

  it("the timeouts do not expire a call early, and return its remaining time", async () => {
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

describe("timeouts of calls in a busy process", () => {
  it("the timeouts do not count the time in which the process is busy", async () => {
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

  it("the timeouts do not count busy time that begins in the middle of an event loop turn", async () => {
    for (let round = 0; round < 50; round++) {
      const timeouts = new Timeouts(100);
      const expired: string[] = [];
      const [call] = begin(timeouts, "a", expired);
      // Depending on the round, the pause ends before, during or after the event loop turn of the check.
      await pause(round % 10);
      if (round % 2) await setImmediate();
      block(120);
      await setImmediate();
      await setImmediate();
      expect(expired).toEqual([]);
      timeouts.remove(call as Call);
    }
  });

  it("the timeouts do not expire a call whose answer arrived while the process was busy", async () => {
    const timeouts = new Timeouts(10);
    const expired: string[] = [];
    const [call] = begin(timeouts, "a", expired);
    // The event loop runs the timers first, and reads the answer after them.
    const { port1, port2 } = new MessageChannel();
    port1.once("message", () => timeouts.remove(call as Call));
    port2.postMessage("answer");
    block(100);
    await pause(100);
    port1.close();
    expect(expired).toEqual([]);
  });
});
