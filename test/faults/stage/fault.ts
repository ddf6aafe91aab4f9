import type { Allowances } from "../history/violation.ts";
import type { ShapeName } from "./shapes.ts";
import type { Stage } from "./stage.ts";

/** What can befall Redis and the workers. */
export interface Fault {
  readonly name: string;
  readonly shape: ShapeName;
  /** How many replicas confirm a change. Default: none. */
  readonly minReplicas?: number;
  /** After how many milliseconds without an answer a master is replaced. Default 1000. */
  readonly downAfterMs?: number;
  /** When nodes write to disk. Default: `everysec`. */
  readonly fsync?: "always";
  /** Whether nodes and clients reach each other by a network that the fault cuts or disturbs. */
  readonly isNetworked?: boolean;
  /** Whether it ends workers, and cuts off calls to them. */
  readonly workersEnd?: boolean;
  /** What is not promised under it; everything else is. */
  readonly allow: Allowances;
  /** Whether it belongs to the short form. */
  readonly isInShort?: boolean;
  /** Has it happen again and again while there is time. */
  act(stage: Stage): Promise<void>;
}
