import { closeLater } from "@user-group-service/testing/opened";
import { pause, waitFor } from "@user-group-service/testing/wait";
import { expect, it } from "vitest";
import { newShape, type Shape, type ShapeName, type ShapeOptions } from "../faults/stage/shapes.ts";
import { bearer } from "../support/admin.ts";
import { connectClient } from "../support/clients/connect.ts";
import { nodeHttpClient } from "../support/clients/rest.ts";
import { failOverByScript, planFailover } from "../support/failover.ts";
import { describeWithRedis, newServer } from "../support/opened.ts";
import { beginAcknowledgedLoad, PHASE_MS } from "./acknowledged-load.ts";

/** Errors that every call may have during a failover. */
const STORE_AWAY = /^unavailable (?:STORE_UNAVAILABLE|TOO_FEW_REPLICAS)/;

/** Number of failovers. */
const TIMES = 3;

/** How long calls are observed after a failover, in milliseconds. */
const AFTERWARDS_MS = 1500;

/** Replaces the master of a key, and returns when another node is the master. */
interface Way {
  readonly name: string;
  readonly shape: ShapeName;
  /** `MIN_REPLICAS_ACK`. */
  readonly minReplicas: number;
  replace(shape: Shape, key: string): Promise<void>;
}

const requested: Way["replace"] = async (shape, key) => {
  const old = await shape.master(key);
  await planFailover(
    () => shape.failOver(key),
    async () => (await shape.master(key)) !== old,
  );
};

const killed: Way["replace"] = async (shape, key) => {
  const old = await shape.master(key);
  await old.kill();
  await waitFor("another node is the master", async () => (await shape.master(key).catch(() => old)) !== old);
  await pause(AFTERWARDS_MS);
  await old.restart();
};

const WAYS: readonly Way[] = [
  ...[0, 1].map(
    (minReplicas): Way => ({
      name: `planned, Sentinels, the operators' script, MIN_REPLICAS_ACK=${minReplicas}`,
      shape: "Sentinels",
      minReplicas,
      async replace(shape) {
        expect(await failOverByScript(shape.url)).toMatchObject({ code: 0 });
      },
    }),
  ),
  // The old master continues for a moment with a replica that is not its successor, so two replicas must confirm.
  {
    name: "planned, Sentinels, SENTINEL FAILOVER, MIN_REPLICAS_ACK=2",
    shape: "Sentinels",
    minReplicas: 2,
    replace: requested,
  },
  ...[0, 1].map(
    (minReplicas): Way => ({
      name: `planned, a Cluster, CLUSTER FAILOVER, MIN_REPLICAS_ACK=${minReplicas}`,
      shape: "a Cluster",
      minReplicas,
      replace: requested,
    }),
  ),
  { name: "unplanned, Sentinels, kill -9, MIN_REPLICAS_ACK=1", shape: "Sentinels", minReplicas: 1, replace: killed },
  { name: "unplanned, a Cluster, kill -9, MIN_REPLICAS_ACK=1", shape: "a Cluster", minReplicas: 1, replace: killed },
];

const OPTIONS: Omit<ShapeOptions, "minReplicas"> = { isNetworked: false, downAfterMs: 5000, fsync: "everysec" };

describeWithRedis("two workers under load during failovers", () => {
  it.each(WAYS.map((way) => [way.name, way] as const))("%s", async (name, way) => {
    const { shape: shapeName, minReplicas, replace } = way;
    const shape = await newShape(shapeName, { ...OPTIONS, minReplicas });
    const options = { redisUrl: shape.url, env: { MIN_REPLICAS_ACK: String(minReplicas), REDIS_TIMEOUT: "1s" } };
    const first = await newServer(options);
    const second = await newServer({ ...options, like: first });
    const urls = [first.url, second.url];
    const overRpc = urls.map((url) => connectClient(url, { protocol: "connect", httpVersion: "2", binary: true }));
    const overRest = urls.map((url) => nodeHttpClient(url));
    for (const client of [...overRpc, ...overRest]) closeLater(() => client.close());
    const load = await beginAcknowledgedLoad([overRpc, overRest], bearer(first.tokens.customer), STORE_AWAY);
    const { faults } = await load.during(`${name}: before`, PHASE_MS);
    expect(faults).toEqual({});
    for (let n = 1; n <= TIMES; n++) {
      await load.during(`${name}: ${n}`, async () => {
        await replace(shape, `key ${n}`);
        await pause(AFTERWARDS_MS);
      });
      await shape.whole();
      // All failures up to the recovery of the master are counted.
      await pause(AFTERWARDS_MS);
    }
    const after = await load.during(`${name}: afterwards`, PHASE_MS);
    expect(after.faults).toEqual({});
    const { acknowledged, wrong } = await load.end();
    console.log(`${name}: ${acknowledged} changes were acknowledged, ${wrong.length} answers were wrong`);
    expect(wrong).toEqual([]);
  });
});
