import { closeLater } from "@user-group-service/testing/opened";
import { environmentPrefix, groupKey } from "../../../src/store/keys.ts";
import { check } from "../history/check.ts";
import { type Figures, figuresOf } from "../history/figures.ts";
import type { Violation } from "../history/violation.ts";
import type { Fault } from "./fault.ts";
import { Load } from "./load.ts";
import { type NamedEnvironment, readNumber, readStored } from "./read-stored.ts";
import { idle, newTopology, type Topology } from "./topologies.ts";
import { ENVIRONMENTS, newWorkers, type Worker } from "./workers.ts";

export interface Stage {
  readonly topology: Topology;
  readonly workers: readonly Worker[];
  readonly load: Load;
  hasTime(): boolean;
  /** Returns the key of the next group of the load. */
  nextKey(): string;
}

export interface Outcome {
  readonly figures: Figures;
  readonly violations: readonly Violation[];
}

const TAGS = { customer: "Customer", testing: "Testing" } as const;

/** Causes a fault under load for some seconds. Then checks all answers and the stored data. */
export async function perform(fault: Fault, seconds: number): Promise<Outcome> {
  const { minReplicas = 0, downAfterMs = 1000, isNetworked = false, fsync = "everysec" } = fault;
  const topology = await newTopology(fault.topology, { isNetworked, minReplicas, downAfterMs, fsync });
  const workers = await newWorkers(topology.url, minReplicas);
  const [worker] = workers as [Worker];
  const { environment: name } = worker.server();
  const environments = ENVIRONMENTS.map((id): NamedEnvironment => ({ id, name, tag: TAGS[id] }));
  const load = new Load(workers, 1);
  closeLater(() => load.end());
  await load.start();
  await load.servedAgain();
  const inBeginning = await topology.masters();
  const numbers = await Promise.all(environments.map((environment) => readNumber(inBeginning, environment)));
  const shards = new Map(
    environments.map(({ id }, i) => [id, topology.nameOf(inBeginning(environmentPrefix(numbers[i] as number)))]),
  );
  const began = performance.now();
  const until = began + seconds * 1000;
  let next = 0;
  await fault.act({
    topology,
    workers,
    load,
    hasTime: () => performance.now() < until,
    nextKey: () => groupKey(numbers[next % numbers.length] as number, `group ${next++}`),
  });
  topology.network.heal();
  await topology.whole();
  await load.servedAgain();
  await load.end();
  await idle(topology.nodes);
  await load.readAll();
  const { calls } = load;
  const masters = await topology.masters();
  const stored = await Promise.all(environments.map((environment) => readStored(masters, environment)));
  const { allow, workersEnd = false } = fault;
  const figures = figuresOf(
    calls.filter(({ start }) => start >= began),
    // All groups of an environment are on one shard, so the master of the environment identifies the shard.
    (group) => shards.get(group.slice(0, group.indexOf("/"))) ?? "",
  );
  return { figures, violations: check({ calls, stored, allow, workersEnd }) };
}
