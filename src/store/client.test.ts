import { afterEach, expect, it } from "vitest";
import type { StoreClient, StoreObserver } from "./client.ts";
import { openEmbedded } from "./embedded.ts";

const clients: StoreClient[] = [];
afterEach(() => {
  for (const client of clients.splice(0)) client.close();
});

it("tells once of a round trip that fails after its timeout", async () => {
  const seen: Parameters<StoreObserver>[0][] = [];
  const client = await openEmbedded({ timeoutMs: 10, observe: (roundTrip) => seen.push(roundTrip) });
  clients.push(client);
  let fail: (error: Error) => void = () => {};
  const run = client.run("slow", () => new Promise<void>((_, reject) => (fail = reject)));
  await expect(run).rejects.toThrow("the store does not answer");
  fail(new Error("socket timeout"));
  await new Promise((resolve) => setImmediate(resolve));
  expect(seen).toMatchObject([{ operation: "slow", failed: true }]);
});
