import type { Allowances } from "../history/violation.ts";
import type { Stage } from "./stage.ts";
import type { TopologyName } from "./topologies.ts";

/** A fault of Redis or of the workers, with its configuration. */
export interface Fault {
  readonly name: string;
  readonly topology: TopologyName;
  readonly minReplicas?: number;
  /** Time without an answer after which Redis replaces a master, in milliseconds. Default: 1000. */
  readonly downAfterMs?: number;
  /** Redis' setting `appendfsync`. Default: `everysec`. */
  readonly fsync?: "always";
  /** Whether all connections pass through a simulated network that the fault can disturb. */
  readonly isNetworked?: boolean;
  /** Whether the fault ends workers, so that calls may be cut off. */
  readonly workersEnd?: boolean;
  readonly allow: Allowances;
  readonly isInShort?: boolean;
  /** Causes the fault repeatedly until `stage.hasTime()` returns false. */
  act(stage: Stage): Promise<void>;
}
