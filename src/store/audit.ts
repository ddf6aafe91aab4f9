import { type ChangeBy, MAX_EVENTS, MIN_PARTITION_EVENTS } from "../domain/audit.ts";
import type { Environment, EnvironmentName } from "../domain/environment.ts";
import { auditKey, environmentAuditKey, partitionPrefix } from "./keys.ts";

/** How many events the trail of an environment itself keeps: few change its API tokens. */
const MAX_ENVIRONMENT_EVENTS = 100_000;

/** Names who makes a change to the scripts that write audit events (`AUDIT` in `script-parts.ts`). */
export class Audit {
  /** How long events are kept, in milliseconds. */
  readonly retentionMs: number;

  constructor(retentionMs: number) {
    this.retentionMs = retentionMs;
  }

  /** The last arguments of a script that changes user groups of a partition. */
  ofPartition(environment: Environment, partition: number, by: ChangeBy): string[] {
    const share = Math.ceil(MAX_EVENTS / environment.partitions);
    const key = auditKey(partitionPrefix(environment, partition));
    return this.#args(key, Math.max(share, MIN_PARTITION_EVENTS), by);
  }

  /** The last arguments of a script that changes an environment or its API tokens. */
  ofEnvironment(environment: EnvironmentName, by: ChangeBy): string[] {
    return this.#args(environmentAuditKey(environment), MAX_ENVIRONMENT_EVENTS, by);
  }

  #args(key: string, maxEvents: number, by: ChangeBy): string[] {
    const { actorId, actorName, role, method, requestId, peer } = by;
    return [key, String(this.retentionMs), String(maxEvents), actorId, actorName, role, method, requestId, peer];
  }
}
