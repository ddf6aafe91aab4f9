import type { Allowances } from "../history/violation.ts";
import type { Stage } from "./stage.ts";
import type { TopologyName } from "./topologies.ts";

/** A fault of Redis or of the workers, and the configuration in which the fault happens. */
export interface Fault {
  readonly name: string;
  readonly topology: TopologyName;
  readonly minReplicas?: number;
  /** If a master does not answer for this time, Redis replaces the master. In milliseconds. Default: 1000. */
  readonly downAfterMs?: number;
  /** Redis' setting `appendfsync`. Default: `everysec`. */
  readonly fsync?: "always";
  /** Whether all connections pass through a simulated network that the fault can disturb. */
  readonly isNetworked?: boolean;
  /** Whether the fault ends workers. If true, the connections of calls may break. */
  readonly workersEnd?: boolean;
  readonly allow: Allowances;
  readonly isInShort?: boolean;
  /** Causes the fault repeatedly until `stage.hasTime()` returns false. */
  act(stage: Stage): Promise<void>;
}
