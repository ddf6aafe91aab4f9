import type { Allowances } from "../history/violation.ts";
import type { Stage } from "./stage.ts";
import type { TopologyName } from "./topologies.ts";

/** A fault of Redis or of the workers. */
export interface Fault {
  readonly name: string;
  readonly topology: TopologyName;
  /** Number of replicas that must confirm a change. Default: 0. */
  readonly minReplicas?: number;
  /** Time without an answer after which a master is replaced, in milliseconds. Default: 1000. */
  readonly downAfterMs?: number;
  /** `appendfsync` of the nodes. Default: `everysec`. */
  readonly fsync?: "always";
  /** Whether nodes and clients connect through a network that the fault disturbs. */
  readonly isNetworked?: boolean;
  /** Whether the fault ends workers. The end of a worker cuts off its calls. */
  readonly workersEnd?: boolean;
  /** Promises that do not hold under the fault. Default: all hold. */
  readonly allow: Allowances;
  /** Whether the short run includes this fault. */
  readonly isInShort?: boolean;
  /** Repeats the fault while there is time. */
  act(stage: Stage): Promise<void>;
}
