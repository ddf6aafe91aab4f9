import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { holdsData } from "../src/server/redis-state.ts";
import type { StoreClient } from "../src/store/connection/client.ts";
import { openEmbedded } from "../src/store/connection/embedded/embedded.ts";
import type { RingKey } from "../src/store/encryption.ts";
import { StoreIdentity, TIME_KEY } from "../src/store/identity.ts";
import { FORMAT_KEY } from "../src/store/keys.ts";
import { noteKeyUse } from "../src/store/secret-keys/ring.ts";
import { RING } from "./support/contract/context.ts";
import { describeWithRedis, newOperator, newStoreClient, suiteRedis } from "./support/opened.ts";
import { redisOf } from "./support/redis-of.ts";

const HOUR_MS = 3_600_000;

let client: StoreClient;
beforeEach(async () => {
  client = await openEmbedded({ timeoutMs: 20_000 });
});
afterEach(() => {
  vi.restoreAllMocks();
  client.close();
});

const newWorker = async (of = client) => {
  const identity = new StoreIdentity({ client: of, layout: "1", isCluster: false, onChange: () => {} });
  await identity.adopt();
  return identity;
};

const stored = () => redisOf(client).get(FORMAT_KEY);
const restore = (text: string | null) => redisOf(client).set(FORMAT_KEY, text ?? "");

const uses = async (worker: StoreIdentity) => {
  await worker.check();
  return worker.refusal() === undefined;
};

describe("the acceptance of the data in Redis by an operator", () => {
  it("the acceptance of data applies to every worker, even if the clock of Redis is behind the clocks of the workers", async () => {
    const now = Date.now;
    vi.spyOn(Date, "now").mockImplementation(() => now() + HOUR_MS);
    const workers = [await newWorker(), await newWorker()] as const;
    vi.restoreAllMocks();
    await redisOf(client).flushall();
    for (const worker of workers) expect(await uses(worker)).toBe(false);
    await workers[0].accept();
    for (const worker of workers) expect(await uses(worker)).toBe(true);
  });

  it("the acceptance of data applies to a worker that had no connection at that time", async () => {
    const [worker, other] = [await newWorker(), await newWorker()];
    await redisOf(client).flushall();
    await newWorker();
    await other.accept();
    expect(await uses(other)).toBe(true);
    expect(await uses(worker)).toBe(true);
  });

  it("the acceptance of data applies to a worker even if the worker that accepted the data started after the loss of the earlier data", async () => {
    const worker = await newWorker();
    await worker.accept();
    await redisOf(client).flushall();
    const late = await newWorker();
    expect(await uses(worker)).toBe(false);
    await late.accept();
    expect(await uses(worker)).toBe(true);
    expect(await uses(late)).toBe(true);
  });

  it("the acceptance of data does not apply to a worker that started after the accepted data was lost", async () => {
    await (await newWorker()).accept();
    const other = await stored();
    await redisOf(client).flushall();
    const worker = await newWorker();
    await restore(other);
    expect(await uses(worker)).toBe(false);
  });

  it("the acceptance of data ends when Redis returns to earlier data, even if the worker used or accepted the earlier data", async () => {
    const worker = await newWorker();
    const former = await stored();
    await redisOf(client).flushall();
    await newWorker();
    expect(await uses(worker)).toBe(false);
    await worker.accept();
    const accepted = await stored();
    await restore(former);
    expect(await uses(worker)).toBe(false);
    await worker.accept();
    expect(await uses(worker)).toBe(true);
    await restore(accepted);
    expect(await uses(worker)).toBe(false);
  });
});

describeWithRedis("the check for data in Redis", () => {
  const redis = suiteRedis();

  it("a Redis that is emptied while a process starts counts as empty for a process that starts later", async () => {
    const [own, operator] = [await newStoreClient(redis), newOperator(redis)];
    for (let round = 0; round < 100; round++) {
      const worker = await newWorker(own);
      expect(Number(await operator.get(TIME_KEY))).toBeGreaterThan(0);
      await Promise.all([
        worker.noteTime(),
        operator.flushall(),
        worker.noteTime(),
        noteKeyUse(own, RING[0] as RingKey),
      ]);
      await worker.noteTime();
      expect(await operator.exists(FORMAT_KEY, TIME_KEY)).toBe(0);
      expect(await holdsData(own)).toBe(false);
    }
  });
});
