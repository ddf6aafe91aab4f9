import type { Allowances } from "../history/violation.ts";
import type { Stage } from "./stage.ts";
import type { TopologyName } from "./topologies.ts";

/** A fault of Redis or of the workers, with its configuration. */
export interface Fault {
  readonly name: string;
  readonly topology: TopologyName;
  /** Number of replicas that must confirm a change. Default: 0. */
  readonly minReplicas?: number;
  /** Time without an answer after which Redis replaces a master, in milliseconds. Default: 1000. */
  readonly downAfterMs?: number;
  /** Redis' setting `appendfsync`. Default: `everysec`. */
  readonly fsync?: "always";
  /** Whether all connections pass through a simulated network that the fault can disturb. */
  readonly isNetworked?: boolean;
  /** Whether the fault ends workers, so that calls may be cut off. */
  readonly workersEnd?: boolean;
  /** Exceptions from the promises under this fault. */
  readonly allow: Allowances;
  /** Whether short runs include this fault. */
  readonly isInShort?: boolean;
  /** Causes the fault repeatedly until the time is over. */
  act(stage: Stage): Promise<void>;
}
