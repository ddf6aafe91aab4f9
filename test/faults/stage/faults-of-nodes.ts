import { pause, waitFor } from "@user-group-service/testing/wait";
import { ask, type TestRedis } from "../../support/redis.ts";
import { STRICT } from "../history/violation.ts";
import type { Fault } from "./fault.ts";
import type { Stage } from "./stage.ts";
import { replicaOf, type TopologyName } from "./topologies.ts";

const MIB = 1024 * 1024;

/** Number of extra keys. A node that starts must load these keys, so its start takes longer. */
const LOADED_KEYS = 300_000;
const KEYS_AT_ONCE = 30_000;

const FILLER = "filler";

const REPLICATED: readonly TopologyName[] = ["Sentinels", "a Cluster"];

/** Faults of nodes. During these faults, each master stays the master. */
export const nodeFaults: readonly Fault[] = [
  {
    name: "slots move back and forth",
    topology: "a Cluster",
    minReplicas: 1,
    allow: STRICT,
    isInShort: true,
    act: async ({ topology, hasTime, nextKey }) => {
      while (hasTime()) {
        const key = nextKey();
        for (let turns = 0; turns < 2 && hasTime(); turns++) {
          const move = await topology.beginMove(key);
          for (let step = 0; step < 10; step++) {
            await move.keys(1);
            await pause(20);
          }
          await move.finish();
        }
      }
    },
  },
  ...(["one node", "a Cluster"] as const).map(
    (topology): Fault => ({
      name: "the memory is full",
      topology,
      minReplicas: topology === "one node" ? 0 : 1,
      allow: STRICT,
      isInShort: topology === "one node",
      act: fillMemory,
    }),
  ),
  {
    name: "a node is killed, and must load a large file after its restart",
    topology: "one node",
    allow: STRICT,
    isInShort: true,
    act: async ({ topology, load, hasTime, nextKey }) => {
      const node = await topology.master(nextKey());
      await makeLongInLoading(node);
      do {
        await load.servedAgain();
        await node.kill();
        // While the node loads the file, it answers every command with LOADING.
        await node.restart();
        await topology.whole();
      } while (hasTime());
    },
  },
  ...REPLICATED.map(
    (topology): Fault => ({
      name: "all nodes are killed at the same time and restarted",
      topology,
      minReplicas: 1,
      // With `everysec`, the latest changes may be missing on disk, even on a replica that has just started.
      fsync: "always",
      downAfterMs: 10_000,
      allow: STRICT,
      act: async ({ topology: redis, load, hasTime }) => {
        while (hasTime()) {
          await Promise.all(redis.nodes.map((node) => node.kill()));
          await pause(300);
          await Promise.all(redis.nodes.map((node) => node.restart()));
          await redis.whole();
          await load.servedAgain();
        }
      },
    }),
  ),
  ...REPLICATED.map(
    (topology): Fault => ({
      name: "a replica hangs",
      topology,
      minReplicas: 1,
      // The fault is shorter than this timeout, so Redis replaces no master and drops no replica.
      downAfterMs: 10_000,
      allow: STRICT,
      isInShort: topology === "a Cluster",
      act: async ({ topology: redis, hasTime, nextKey }) => {
        while (hasTime()) {
          const replica = await replicaOf(redis.nodes, await redis.master(nextKey()));
          replica.freeze();
          await pause(3000);
          replica.thaw();
          await redis.whole();
          await pause(500);
        }
      },
    }),
  ),
];

/** Fills the memory of the master of a key up to the limit. Then removes the limit. */
async function fillMemory({ topology, load, hasTime, nextKey }: Stage): Promise<void> {
  while (hasTime()) {
    const key = nextKey();
    const master = await topology.master(key);
    const used = Number(/^used_memory:(\d+)/m.exec((await ask(master, "INFO", "memory")) as string)?.[1]);
    await ask(master, "CONFIG", "SET", "maxmemory", String(used + 2 * MIB));
    await waitFor("the memory is full", () => isFull(master, key));
    await pause(1500);
    await ask(master, "CONFIG", "SET", "maxmemory", "0");
    await load.servedAgain();
  }
}

/** Appends data to a filler key in the slot of `key`. Returns whether the node has no memory for the data. */
async function isFull(node: TestRedis, key: string): Promise<boolean> {
  return ask(node, "APPEND", key.slice(0, key.indexOf("}") + 1) + FILLER, "x".repeat(MIB / 4)).then(
    () => false,
    (error: Error) => error.message.startsWith("OOM"),
  );
}

/** Stores many keys, and rewrites the AOF as plain commands. A node takes longer to load an AOF in this form. */
async function makeLongInLoading(node: TestRedis): Promise<void> {
  for (let keys = 0; keys < LOADED_KEYS; keys += KEYS_AT_ONCE) {
    await ask(node, "DEBUG", "POPULATE", String(KEYS_AT_ONCE), `${FILLER} ${keys}`, "64");
  }
  await ask(node, "CONFIG", "SET", "aof-use-rdb-preamble", "no");
  await ask(node, "BGREWRITEAOF");
  await waitFor("all keys are on disk", async () =>
    /^aof_rewrite_in_progress:0/m.test((await ask(node, "INFO", "persistence")) as string),
  );
}
