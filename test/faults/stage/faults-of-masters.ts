import { pause, waitFor } from "@user-group-service/testing/wait";
import { failOverByScript, planFailover } from "../../support/failover.ts";
import { CLIENT } from "../../support/network.ts";
import { STRICT } from "../history/violation.ts";
import type { Fault } from "./fault.ts";
import type { Stage } from "./stage.ts";
import type { TopologyName } from "./topologies.ts";

const REPLACING: readonly TopologyName[] = ["Sentinels", "a Cluster"];

/**
 * A failover loses no acknowledged change. It may lose a change that was not acknowledged, even if reads have shown it.
 */
const FORGETS = { mayForget: true, staleMs: 0 };

/**
 * If Redis runs with Sentinels, workers use an isolated master until a Sentinel announces the new master. Until then,
 * reads may show an old state. In a Cluster, this does not happen: an isolated master stops answering before another
 * node replaces it.
 */
const FORGETS_AND_LAGS = { mayForget: true, staleMs: 1000 };

async function replaced(topology: Stage["topology"], key: string, old: unknown): Promise<void> {
  await waitFor("another node is the master", async () => {
    const master = await topology.master(key).catch(() => undefined);
    return master !== undefined && master !== old;
  });
}

/**
 * Isolates the master of a key from the other nodes. The isolation ends when another master has served for two seconds.
 *
 * @param alone if true, the workers can reach only the isolated master
 */
async function cutOff({ topology, load, hasTime, nextKey }: Stage, alone: boolean): Promise<void> {
  while (hasTime()) {
    const key = nextKey();
    const old = await topology.master(key);
    const name = topology.nameOf(old);
    const isOther = (one: string) => one !== name && one !== CLIENT;
    topology.network.cut((one, other) => (one === name || (alone && one === CLIENT)) && isOther(other));
    await replaced(topology, key, old);
    await pause(2000);
    topology.network.heal();
    await topology.whole();
    await load.servedAgain();
  }
}

/** Freezes a master. If the freeze lasts longer than `downAfterMs`, another node replaces the master. */
function frozenFor(ms: number, downAfterMs: number): Fault[] {
  return REPLACING.map((topology) => ({
    name: `a master hangs for ${ms / 1000} s`,
    topology,
    minReplicas: 1,
    downAfterMs,
    allow: ms < downAfterMs ? STRICT : FORGETS,
    act: async ({ topology: redis, load, hasTime, nextKey }) => {
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

export const masterFaults: readonly Fault[] = [
  ...REPLACING.map(
    (topology): Fault => ({
      name: "a master is killed, replaced, and restarted",
      topology,
      minReplicas: 1,
      allow: FORGETS,
      isInShort: topology === "Sentinels",
      act: async ({ topology: redis, load, hasTime, nextKey }) => {
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
    (topology): Fault => ({
      name: "a master loses its connections to all nodes but not to the workers, and is replaced",
      topology,
      minReplicas: 1,
      isNetworked: true,
      allow: topology === "Sentinels" ? FORGETS_AND_LAGS : FORGETS,
      isInShort: true,
      act: (stage) => cutOff(stage, false),
    }),
  ),
  {
    name: "a master and the workers are isolated from all other nodes, and another node replaces the master",
    topology: "Sentinels",
    minReplicas: 1,
    isNetworked: true,
    allow: FORGETS_AND_LAGS,
    act: (stage) => cutOff(stage, true),
  },
  {
    // For a moment, the old master still accepts changes, and one replica still confirms these changes. With only one
    // required confirmation, acknowledged changes would be lost. So each change needs the confirmation of two replicas.
    name: "a healthy master is replaced by SENTINEL FAILOVER",
    topology: "Sentinels",
    minReplicas: 2,
    allow: FORGETS,
    act: replaceAgainAndAgain,
  },
  ...[0, 1].map(
    (minReplicas): Fault => ({
      name: `a healthy master is replaced by the operators' script, with ${minReplicas} replicas to confirm changes`,
      topology: "Sentinels",
      minReplicas,
      allow: FORGETS,
      isInShort: minReplicas === 1,
      act: async ({ topology, load, hasTime }) => {
        while (hasTime()) {
          const { code, output } = await failOverByScript(topology.url);
          if (code !== 0) throw new Error(output);
          await topology.whole();
          await load.servedAgain();
        }
      },
    }),
  ),
  ...[0, 1].map(
    (minReplicas): Fault => ({
      name: `a healthy master is replaced by CLUSTER FAILOVER, with ${minReplicas} replicas to confirm changes`,
      topology: "a Cluster",
      minReplicas,
      allow: STRICT,
      isInShort: minReplicas === 1,
      act: replaceAgainAndAgain,
    }),
  ),
];

async function replaceAgainAndAgain({ topology, load, hasTime, nextKey }: Stage): Promise<void> {
  while (hasTime()) {
    const key = nextKey();
    const old = await topology.master(key);
    await planFailover(
      () => topology.failOver(key),
      async () => (await topology.master(key)) !== old,
    );
    await topology.whole();
    await load.servedAgain();
  }
}
