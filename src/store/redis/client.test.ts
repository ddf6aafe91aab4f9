import { afterEach, describe, expect, it, vi } from "vitest";
import { redisOf } from "../../../test/support/redis-of.ts";
import { RecordUnreadable, StoreUnavailable } from "../../domain/errors.ts";
import { openEmbedded } from "../embedded.ts";
import { ADOPT } from "../encryption.ts";
import type { StoreClient, StoreClientOptions, StoreObserver } from "./client.ts";

/** What `ADOPT` sets. */
const FIELD = { key: "hash", field: "field", value: "value" };

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

it("tells once of a round trip that fails after its timeout", async () => {
  const seen: Parameters<StoreObserver>[0][] = [];
  const client = await open({ timeoutMs: 10, observe: (roundTrip) => seen.push(roundTrip) });
  let fail: (error: Error) => void = () => {};
  vi.spyOn(redisOf(client), "get").mockReturnValue(new Promise((_, reject) => (fail = reject)));
  const run = client.run("slow", "get", ["key"]);
  await expect(run).rejects.toThrow("the store does not answer");
  fail(new Error("socket timeout"));
  await new Promise((resolve) => setImmediate(resolve));
  expect(seen).toMatchObject([{ operation: "slow", failed: true }]);
});

it("tells what is unreadable from what is unavailable, and keeps no arguments of commands", async () => {
  const client = await open({ timeoutMs: 1000 });
  const fail = (text: string) => {
    const error = Object.assign(new Error(text), { command: { args: ["secret"] } });
    vi.spyOn(redisOf(client), "get").mockReturnValueOnce(Promise.reject(error));
    return client.run("failing", "get", ["key"]);
  };
  await expect(fail("WRONGTYPE of a key")).rejects.toBeInstanceOf(RecordUnreadable);
  const error = (await fail("READONLY replica").catch((caught: unknown) => caught)) as StoreUnavailable;
  expect(error).toBeInstanceOf(StoreUnavailable);
  expect(error.cause).toMatchObject({ message: "READONLY replica" });
  expect(error.cause).not.toHaveProperty("command");
});

it("makes no change that is not sent by when it has to be", async () => {
  const client = await open({ timeoutMs: 1000 });
  const late = client.change("adopt", ADOPT, FIELD, performance.now());
  await expect(late).rejects.toMatchObject({ name: "StoreUnavailable", outcome: "not_made" });
  expect(await redisOf(client).exists("hash")).toBe(0);
  const early = client.change("adopt", ADOPT, FIELD, performance.now() + 60_000);
  expect((await early)[0]).toBe("made");
});

describe("a clock of Redis that is set", () => {
  const HOUR_MS = 3_600_000;
  /** Makes a change, and counts how often it was sent. The connection knows the script from an earlier one. */
  const change = async (client: StoreClient) => {
    const sent = vi.spyOn(redisOf(client) as unknown as Record<string, () => unknown>, ADOPT.name);
    const [outcome] = await client.change("adopt", ADOPT, { ...FIELD, field: `field ${Math.random()}` });
    expect(outcome).toBe("made");
    const { length } = sent.mock.calls;
    sent.mockRestore();
    return length;
  };

  // Longer than a busy machine takes for a change, and shorter than every jump.
  const timeoutMs = 20_000;

  it.each([HOUR_MS, -HOUR_MS, 25_000, 24 * 365 * HOUR_MS])("by %i ms costs one retry at most", async (jump) => {
    const client = await open({ timeoutMs });
    await client.change("adopt", ADOPT, { ...FIELD, key: "another" });
    const now = Date.now;
    expect(await change(client)).toBe(1);
    vi.spyOn(Date, "now").mockImplementation(() => now() + jump);
    expect(await change(client)).toBe(jump > 0 ? 2 : 1);
    for (let i = 0; i < 5; i++) expect(await change(client)).toBe(1);
    // And back again.
    vi.restoreAllMocks();
    expect(await change(client)).toBe(jump > 0 ? 1 : 2);
    expect(await change(client)).toBe(1);
  });

  it("at every change is given up, and nothing is made", async () => {
    const client = await open({ timeoutMs });
    await client.change("adopt", ADOPT, { ...FIELD, key: "another" });
    const now = Date.now;
    let jumps = 0;
    vi.spyOn(Date, "now").mockImplementation(() => now() + HOUR_MS * ++jumps);
    const call = client.change("adopt", ADOPT, FIELD);
    const error = await call.catch((caught: unknown) => caught as StoreUnavailable);
    expect(error).toBeInstanceOf(StoreUnavailable);
    expect(String((error as StoreUnavailable).cause)).toMatch(/was not carried out/);
    expect((error as StoreUnavailable).outcome).toBe("not_made");
    expect(await redisOf(client).exists("hash")).toBe(0);
  });
});
