import { Random } from "@user-group-service/testing/random";
import { pause } from "@user-group-service/testing/wait";
import { ask } from "../../support/redis.ts";
import { STRICT } from "../history/violation.ts";
import type { Fault } from "./fault.ts";
import type { Stage } from "./stage.ts";
import type { TopologyName } from "./topologies.ts";

const TOPOLOGIES: readonly TopologyName[] = ["Sentinels", "a Cluster"];

export const clientFaults: readonly Fault[] = [
  ...onEach("connections break in the middle of answers", {
    isNetworked: true,
    isInShort: true,
    act: async ({ topology, hasTime }) => {
      const random = new Random(1);
      const cutAt = (bytes: number) => (random.chance(0.02) ? random.below(bytes) : undefined);
      topology.network.disturb({ cutAt });
      while (hasTime()) await pause(100);
    },
  }),
  ...onEach("answers are late", {
    isNetworked: true,
    // This timeout is long, so that Redis replaces no master during this fault.
    downAfterMs: 5000,
    act: async ({ topology, hasTime }) => {
      const random = new Random(1);
      // Some answers arrive after the service's timeout.
      const delayMs = () => (random.chance(0.02) ? 300 + random.below(1200) : random.below(30));
      while (hasTime()) {
        topology.network.disturb({ delayMs });
        await pause(2000);
        topology.network.disturb({});
        await pause(500);
      }
    },
  }),
  ...onEach("CLIENT KILL", {
    act: async ({ topology, hasTime }) => {
      while (hasTime()) {
        await Promise.all(topology.nodes.map((node) => ask(node, "CLIENT", "KILL", "TYPE", "normal")));
        await pause(300);
      }
    },
  }),
  ...onEach("SCRIPT FLUSH", {
    act: async ({ topology, hasTime }) => {
      while (hasTime()) {
        await Promise.all(topology.nodes.map((node) => ask(node, "SCRIPT", "FLUSH")));
        await pause(200);
      }
    },
  }),
  ...onEach("CLIENT PAUSE", {
    // CLIENT PAUSE delays the answers to Sentinels as well. This timeout is longer than a pause, so Sentinels do not
    // replace the master.
    downAfterMs: 5000,
    act: async ({ topology, hasTime, nextKey }) => {
      for (let round = 0; hasTime(); round++) {
        const [ms, what] = round % 2 === 0 ? ([600, "WRITE"] as const) : ([1600, "ALL"] as const);
        await ask(await topology.master(nextKey()), "CLIENT", "PAUSE", String(ms), what);
        await pause(ms + 400);
      }
    },
  }),
];

function onEach(name: string, fault: Partial<Fault> & { act(stage: Stage): Promise<void> }): Fault[] {
  return TOPOLOGIES.map((topology) => ({
    allow: STRICT,
    minReplicas: 1,
    ...fault,
    name,
    topology,
    isInShort: Boolean(fault.isInShort) && topology === "a Cluster",
  }));
}
