import type { ChangeBy } from "../../domain/audit.ts";
import type { Environment, EnvironmentName } from "../../domain/environment.ts";
import { environmentAuditKey, KEY } from "../keys.ts";
import { changeScript, type Script, type ScriptDefinition } from "../redis/script.ts";

/**
 * Names of the fields of an audit event, in the order in which all events have them, so that Redis keeps the names once
 * for many events. The id of an event in its stream tells its time.
 */
export const EVENT_FIELD = {
  actorId: "a",
  actorName: "n",
  role: "r",
  method: "m",
  /** The id of the group or the API token that changed, or what was exported; empty: the environment itself. */
  subject: "i",
  /** Names of the fields that have new values, separated by commas. */
  changedFields: "f",
  requestId: "q",
  peer: "p",
} as const;

/**
 * What a script that changes something audited takes beside its own arguments: the key of the stream; how long events are
 * kept, in milliseconds; how many of them, or nothing for all; and who makes the change (`ChangeBy`).
 */
const AUDIT_ARGS = [
  ...["trail", "retentionMs", "most"],
  ...["actorId", "actorName", "role", "method", "requestId", "peer"],
] as (keyof AuditArgs)[];

/** The arguments that `AUDIT_ARGS` names. */
export interface AuditArgs extends ChangeBy {
  readonly trail: string;
  readonly retentionMs: number;
  readonly most: number | undefined;
}

/** The fields and values of an event, in Lua. */
const EVENT = Object.entries(EVENT_FIELD)
  .map(([name, field]) => `'${field}', ${name}`)
  .join(", ");

/** After how many events those that are too old or too many are looked for: Redis drops them by blocks anyway. */
const TRIM_INTERVAL = 64;

/**
 * Appends an event to the stream `trail`, and leaves in `dropped` how many were too many. Its id is the time to the
 * microsecond, by which it is ordered among the events of other streams; when the clock was set back, Redis makes the id.
 */
const APPEND = `local function add(call, id) return call('XADD', trail, id, ${EVENT}) end
  if type(add(redis.pcall, stamp .. string.format('-%.0f', time[2] % 1000))) == 'table' then add(redis.call, '*') end
  if length % ${TRIM_INTERVAL} == 0 then
    redis.call('XTRIM', trail, 'MINID', '~', string.format('%.0f', now - retentionMs))
    if length > maxLength then dropped = redis.call('XTRIM', trail, 'MAXLEN', '~', most) end
  end`;

/**
 * The beginning of a script whose changes are audited; it reads the stream before anything is written. The script calls
 * `audit` once for each change, with the id of what it changed and the names of the changed fields; it may have written
 * before. `audit` returns how many events it dropped only because there were too many, not because they were too old.
 */
const AUDIT = `local length, maxLength = redis.call('XLEN', trail), tonumber(most) or math.huge
local function audit(subject, changedFields)
  local dropped = 0
  ${APPEND}
  redis.call('PEXPIRE', trail, retentionMs)
  return dropped
end
`;

/** A script that makes a change, and writes an event of it by `audit` in `AUDIT`. */
export function auditedScript<const Name extends string = never>(
  name: string,
  { args = [], lua, ...options }: ScriptDefinition<Name>,
): Script<Name | keyof AuditArgs> {
  return changeScript(name, { ...options, args: [...args, ...AUDIT_ARGS], lua: AUDIT + lua });
}

/** How many updates of groups an environment keeps on record by default, however young they are. */
const MAX_UPDATES = 10_000_000;

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

/** Tells the scripts that write audit events where, and who makes the change. */
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

  /** For what creates, deletes or imports user groups of a partition, or replaces tokens. */
  ofPartition(prefix: string, by: ChangeBy): AuditArgs {
    return this.#args(prefix + KEY.audit, undefined, by);
  }

  /** For what updates a user group: the only events that are dropped for their number. */
  ofUpdate(prefix: string, by: ChangeBy, { partitions }: Environment): AuditArgs {
    return this.#args(prefix + KEY.updatesAudit, Math.ceil(this.#maxUpdates / partitions), by);
  }

  /** For what changes an environment or its API tokens. */
  ofEnvironment(environment: EnvironmentName, by: ChangeBy): AuditArgs {
    return this.#args(environmentAuditKey(environment), undefined, by);
  }

  #args(trail: string, most: number | undefined, by: ChangeBy): AuditArgs {
    const { actorId, actorName, role, method, requestId, peer } = by;
    return { trail, retentionMs: this.retentionMs, most, actorId, actorName, role, method, requestId, peer };
  }
}
