import { pause, waitFor } from "@user-group-service/testing/wait";
import { failOverByScript, planFailover } from "../../support/failover.ts";
import { CLIENT } from "../../support/network.ts";
import { STRICT } from "../history/violation.ts";
import type { Fault } from "./fault.ts";
import type { ShapeName } from "./shapes.ts";
import type { Stage } from "./stage.ts";

/** The shapes of Redis that replace a failed master. */
const REPLACING: readonly ShapeName[] = ["Sentinels", "a Cluster"];

/** Acknowledged changes are kept. A change that was only read just before the master failed may be lost. */
const FORGETS = { mayForget: true, staleMs: 0 };

/**
 * Workers use an isolated master until they receive the message of a Sentinel, so reads may be stale until then. An
 * isolated Cluster master stops answering before another takes its place.
 */
const FORGETS_AND_LAGS = { mayForget: true, staleMs: 1000 };

/** Waits until another node is the master of a key. */
async function replaced(shape: Stage["shape"], key: string, old: unknown): Promise<void> {
  await waitFor("another node is the master", async () => {
    const master = await shape.master(key).catch(() => undefined);
    return master !== undefined && master !== old;
  });
}

/**
 * Isolates the master of a key until another has replaced it for a while.
 *
 * @param alone whether only workers can reach it
 */
async function cutOff({ shape, load, hasTime, nextKey }: Stage, alone: boolean): Promise<void> {
  while (hasTime()) {
    const key = nextKey();
    const old = await shape.master(key);
    const name = shape.nameOf(old);
    const isOther = (one: string) => one !== name && one !== CLIENT;
    shape.network.cut((one, other) => (one === name || (alone && one === CLIENT)) && isOther(other));
    await replaced(shape, key, old);
    await pause(2000);
    shape.network.heal();
    await shape.whole();
    await load.servedAgain();
  }
}

/** A master hangs. If it does not resume in time, another replaces it. */
function frozenFor(ms: number, downAfterMs: number): Fault[] {
  return REPLACING.map((shape) => ({
    name: `a master hangs for ${ms / 1000} s`,
    shape,
    minReplicas: 1,
    downAfterMs,
    allow: ms < downAfterMs ? STRICT : FORGETS,
    act: async ({ shape: redis, load, hasTime, nextKey }) => {
      while (hasTime()) {
        const master = await redis.master(nextKey());
        master.freeze();
        await pause(ms);
        master.thaw();
        await redis.whole();
        await load.servedAgain();
      }
    },
  }));
}

/** Faults that remove or replace the master of a key. */
export const masterFaults: readonly Fault[] = [
  ...REPLACING.map(
    (shape): Fault => ({
      name: "a master is killed, replaced, and restarted",
      shape,
      minReplicas: 1,
      allow: FORGETS,
      isInShort: shape === "Sentinels",
      act: async ({ shape: redis, load, hasTime, nextKey }) => {
        while (hasTime()) {
          const key = nextKey();
          const old = await redis.master(key);
          await old.kill();
          await replaced(redis, key, old);
          await pause(1000);
          await old.restart();
          await redis.whole();
          await load.servedAgain();
        }
      },
    }),
  ),
  ...frozenFor(500, 5000),
  ...frozenFor(5000, 1000),
  ...REPLACING.map(
    (shape): Fault => ({
      name: "a master loses all nodes but the workers, and is replaced",
      shape,
      minReplicas: 1,
      isNetworked: true,
      allow: shape === "Sentinels" ? FORGETS_AND_LAGS : FORGETS,
      isInShort: true,
      act: (stage) => cutOff(stage, false),
    }),
  ),
  {
    name: "a master is isolated together with the workers, and replaced on the other side",
    shape: "Sentinels",
    minReplicas: 1,
    isNetworked: true,
    allow: FORGETS_AND_LAGS,
    act: (stage) => cutOff(stage, true),
  },
  {
    // The old master and one replica that is not its successor continue for a moment, so two replicas must confirm.
    name: "a healthy master is replaced by SENTINEL FAILOVER",
    shape: "Sentinels",
    minReplicas: 2,
    allow: FORGETS,
    act: replaceAgainAndAgain,
  },
  ...[0, 1].map(
    (minReplicas): Fault => ({
      name: `a healthy master is replaced by the operators' script, with ${minReplicas} replicas to confirm changes`,
      shape: "Sentinels",
      minReplicas,
      allow: FORGETS,
      isInShort: minReplicas === 1,
      act: async ({ shape, load, hasTime }) => {
        while (hasTime()) {
          const { code, output } = await failOverByScript(shape.url);
          if (code !== 0) throw new Error(output);
          await shape.whole();
          await load.servedAgain();
        }
      },
    }),
  ),
  ...[0, 1].map(
    (minReplicas): Fault => ({
      name: `a healthy master is replaced by CLUSTER FAILOVER, with ${minReplicas} replicas to confirm changes`,
      shape: "a Cluster",
      minReplicas,
      allow: STRICT,
      isInShort: minReplicas === 1,
      act: replaceAgainAndAgain,
    }),
  ),
];

async function replaceAgainAndAgain({ shape, load, hasTime, nextKey }: Stage): Promise<void> {
  while (hasTime()) {
    const key = nextKey();
    const old = await shape.master(key);
    await planFailover(
      () => shape.failOver(key),
      async () => (await shape.master(key)) !== old,
    );
    await shape.whole();
    await load.servedAgain();
  }
}
