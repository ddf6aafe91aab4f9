import type { ChangeBy } from "../domain/audit.ts";
import type { Environment, EnvironmentName } from "../domain/environment.ts";
import { auditKey, environmentAuditKey, partitionPrefix, updatesAuditKey } from "./keys.ts";

/** How many updates of groups an environment keeps on record by default, however young they are. */
export const MAX_UPDATES = 10_000_000;

/** What bounds the audit trail. */
export interface AuditOptions {
  /**
   * How many updates of groups an environment keeps on record, shared among its partitions; default 10,000,000. Callers
   * decide how many are made, and must not fill the store with them.
   */
  readonly maxUpdates?: number;
  /** Told how many updates were dropped because there were more; default: nobody is. */
  readonly onDropped?: (environment: EnvironmentName, count: number) => void;
}

/** Names who makes a change to the scripts that write audit events (`AUDIT` in `script-parts.ts`). */
export class Audit {
  /** How long events are kept, in milliseconds. */
  readonly retentionMs: number;
  readonly onDropped: NonNullable<AuditOptions["onDropped"]>;
  readonly #maxUpdates: number;

  constructor(retentionMs: number, { maxUpdates = MAX_UPDATES, onDropped = () => {} }: AuditOptions = {}) {
    this.retentionMs = retentionMs;
    this.onDropped = onDropped;
    this.#maxUpdates = maxUpdates;
  }

  /** The last arguments of a script that creates, deletes or imports user groups of a partition, or replaces tokens. */
  ofPartition(environment: Environment, partition: number, by: ChangeBy): string[] {
    return this.#args(auditKey(partitionPrefix(environment, partition)), "", by);
  }

  /** The last arguments of a script that updates a user group: the only events that are dropped for their number. */
  ofUpdate(environment: Environment, partition: number, by: ChangeBy): string[] {
    const most = String(Math.ceil(this.#maxUpdates / environment.partitions));
    return this.#args(updatesAuditKey(partitionPrefix(environment, partition)), most, by);
  }

  /** The last arguments of a script that changes an environment or its API tokens. */
  ofEnvironment(environment: EnvironmentName, by: ChangeBy): string[] {
    return this.#args(environmentAuditKey(environment), "", by);
  }

  #args(key: string, most: string, by: ChangeBy): string[] {
    const { actorId, actorName, role, method, requestId, peer } = by;
    return [key, String(this.retentionMs), most, actorId, actorName, role, method, requestId, peer];
  }
}
