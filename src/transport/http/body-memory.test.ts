import { PassThrough } from "node:stream";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, it } from "vitest";
import { collectBody } from "./body.ts";
import { MemoryBudget } from "./memory-budget.ts";

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

/** Sends a MiB of each of many requests, whose rest never comes; gives how they ended, and the sources, still open. */
async function sendHalf(options: { readonly maxBytes: number; readonly isTooLong: () => boolean }) {
  const { maxBytes, isTooLong } = options;
  const bodies = new MemoryBudget({ timeoutMs: 60_000, maxBytes, maxConnectionBytes: Infinity, overheadBytes: 0 });
  const ends: string[] = [];
  const sources: PassThrough[] = [];
  for (let i = 0; i < REQUESTS; i++) {
    const source = new PassThrough();
    const events = { onBody: () => void ends.push("body"), onEvicted: (reason: string) => void ends.push(reason) };
    collectBody(source, { route: { isTooLong }, bodies, connection: source }, events);
    source.write(Buffer.alloc(MIB));
    await new Promise((resolve) => setImmediate(resolve));
    // What still comes is dropped.
    source.resume();
    sources.push(source);
  }
  return { ends, sources };
}

it("keeps nothing of bodies that are given up, while their rest is coming", async () => {
  const before = await buffersMib();
  const { ends, sources } = await sendHalf({ maxBytes: 4 * MIB, isTooLong: () => false });
  expect(ends).toEqual(Array(REQUESTS - 4).fill("over-budget"));
  expect((await buffersMib()) - before).toBeLessThan(8);
  for (const source of sources) source.destroy();
});

it("keeps nothing of bodies that are too long once they are handed over, while their rest is coming", async () => {
  const before = await buffersMib();
  const { ends, sources } = await sendHalf({ maxBytes: 1024 * MIB, isTooLong: () => true });
  expect(ends).toEqual(Array(REQUESTS).fill("body"));
  expect((await buffersMib()) - before).toBeLessThan(8);
  for (const source of sources) source.destroy();
});
