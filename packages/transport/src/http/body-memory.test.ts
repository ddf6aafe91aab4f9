import { once } from "node:events";
import { PassThrough, Readable } from "node:stream";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, it } from "vitest";
import { IncomingBody } from "./body.ts";
import { ClientBudget, type Holding, Turn, UNIT_BYTES } from "./client-budget.ts";

setFlagsFromString("--expose-gc");
const collectGarbage: () => void = runInNewContext("gc");

const MIB = 1024 * 1024;
const REQUESTS = 48;

/** What the process has in buffers, in MiB. */
async function buffersMib(): Promise<number> {
  // Buffers are freed in the turn after the one that finds them unused.
  for (let i = 0; i < 3; i++) {
    collectGarbage();
    await new Promise((resolve) => setImmediate(resolve));
  }
  return process.memoryUsage().arrayBuffers / MIB;
}

/** Collects bodies of one client; `ends` tells how they ended. */
function receiver(maxBytes: number) {
  const ends: string[] = [];
  const budget = new ClientBudget(maxBytes / UNIT_BYTES);
  return {
    ends,
    turn: new Turn(),
    onBody: ({ byteLength }: Uint8Array) => void ends.push(`${byteLength} bytes`),
    onBodyEvicted: (reason: string) => void ends.push(reason),
    chargeBody: (body: Holding, bytes: number) => budget.charge("a", body, { bytes, timeoutMs: 60_000 }),
  };
}

const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

/** Sends a MiB of each of many requests, whose rest never comes; gives how they ended, and the sources, still open. */
async function sendHalf(maxBytes: number, isTooLong: () => boolean) {
  const received = receiver(maxBytes);
  const sources: PassThrough[] = [];
  for (let i = 0; i < REQUESTS; i++) {
    const source = new PassThrough();
    new IncomingBody(source, { isTooLong }, received);
    source.write(Buffer.alloc(MIB));
    for (let turns = 0; turns < 3; turns++) await nextTurn();
    // What still comes is dropped.
    source.resume();
    sources.push(source);
  }
  return { ends: received.ends, sources };
}

it("takes an empty body that ended before it was known what serves its request", async () => {
  const source = new Readable({ read() {} });
  source.push(null);
  await once(source.resume(), "end");
  const received = receiver(MIB);
  new IncomingBody(source, {}, received);
  expect(received.ends).toEqual(["0 bytes"]);
});

it("charges nothing for a body that arrives in a turn of the event loop", async () => {
  const source = new PassThrough();
  const received = receiver(UNIT_BYTES);
  const chargeBody = () => expect.unreachable();
  new IncomingBody(source, {}, { ...received, chargeBody });
  source.end(Buffer.alloc(4 * UNIT_BYTES));
  for (let turns = 0; turns < 4; turns++) await nextTurn();
  expect(received.ends).toEqual([`${4 * UNIT_BYTES} bytes`]);
});

it("keeps nothing of bodies that are given up, while their rest is coming", async () => {
  const before = await buffersMib();
  const { ends, sources } = await sendHalf(4 * MIB, () => false);
  expect(ends).toEqual(Array(REQUESTS - 4).fill("over-budget"));
  expect((await buffersMib()) - before).toBeLessThan(8);
  for (const source of sources) source.destroy();
});

it("keeps nothing of bodies that are too long once they are handed over, while their rest is coming", async () => {
  const before = await buffersMib();
  const { ends, sources } = await sendHalf(1024 * MIB, () => true);
  expect(ends).toEqual(Array(REQUESTS).fill(`${MIB} bytes`));
  expect((await buffersMib()) - before).toBeLessThan(8);
  for (const source of sources) source.destroy();
});
