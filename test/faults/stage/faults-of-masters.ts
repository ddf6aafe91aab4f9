import { pause, waitFor } from "@user-group-service/testing/wait";
import { failOverByScript, planFailover } from "../../support/failover.ts";
import { CLIENT } from "../../support/network.ts";
import { STRICT } from "../history/violation.ts";
import type { Fault } from "./fault.ts";
import type { ShapeName } from "./shapes.ts";
import type { Stage } from "./stage.ts";

/** The shapes that replace a master which is gone. */
const REPLACING: readonly ShapeName[] = ["Sentinels", "a Cluster"];

/** What was acknowledged is kept; what was only seen, in the moment before the end of its master, need not be. */
const FORGETS = { mayForget: true, staleMs: 0 };

/**
 * A master that is cut off is asked until a Sentinel's word has reached each worker: what it shows may be behind for as
 * long. One of a Cluster knows that it is alone before another takes its place, and stops answering.
 */
const FORGETS_AND_LAGS = { mayForget: true, staleMs: 1000 };

/** Waits until another node than it was is the master of a key. */
async function replaced(shape: Stage["shape"], key: string, old: unknown): Promise<void> {
  await waitFor("another is the master", async () => {
    const master = await shape.master(key).catch(() => undefined);
    return master !== undefined && master !== old;
  });
}

/** Cuts the master of a key off until it has been replaced for a while. @param alone whether workers reach it alone */
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

/** A master that hangs, and is replaced unless it goes on before. */
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

/** What takes a key's master away, or its place. */
export const masterFaults: readonly Fault[] = [
  ...REPLACING.map(
    (shape): Fault => ({
      name: "a master is killed, replaced, and comes back",
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
      name: "a master is cut off from all but the workers, and replaced",
      shape,
      minReplicas: 1,
      isNetworked: true,
      allow: shape === "Sentinels" ? FORGETS_AND_LAGS : FORGETS,
      isInShort: true,
      act: (stage) => cutOff(stage, false),
    }),
  ),
  {
    name: "a master is cut off with the workers, and replaced where they do not reach",
    shape: "Sentinels",
    minReplicas: 1,
    isNetworked: true,
    allow: FORGETS_AND_LAGS,
    act: (stage) => cutOff(stage, true),
  },
  {
    // It goes on for a moment, and so does a replica of it that is not the new master: both must have confirmed.
    name: "a master that is well is replaced by SENTINEL FAILOVER",
    shape: "Sentinels",
    minReplicas: 2,
    allow: FORGETS,
    act: replaceAgainAndAgain,
  },
  ...[0, 1].map(
    (minReplicas): Fault => ({
      name: `a master that is well is replaced by the operators' script, changes waiting for ${minReplicas} replicas`,
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
  {
    name: "a master that is well is replaced by CLUSTER FAILOVER",
    shape: "a Cluster",
    minReplicas: 1,
    allow: STRICT,
    isInShort: true,
    act: replaceAgainAndAgain,
  },
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
