import type { ChangeBy } from "../domain/audit.ts";
import type { Environment, EnvironmentName } from "../domain/environment.ts";
import {
  ApiTokenChanged,
  ApiTokenNotFound,
  ApiTokenOutlivesCaller,
  EnvironmentFull,
  EnvironmentNotFound,
  EtagMismatch,
  RecordUnreadable,
  RequestIdReused,
  TokenNotFound,
  TokenTaken,
  TooManyApiTokens,
  TooManyEndedViewers,
  UserGroupNotFound,
} from "../domain/errors.ts";
import type { StoreClient } from "./connection/client.ts";
import type { Script, ScriptArgs } from "./connection/script.ts";
import { keyMissing } from "./encryption.ts";
import { environmentKey } from "./keys.ts";
import { type EnvironmentScript, type EventArg, RECORD_EVENT } from "./scripts.ts";

const DAY_MS = 86_400_000;

/** The keys of a day expire over so many milliseconds after its retention, so that Redis does not remove all at one time. */
const SPREAD_MS = 3_600_000;

/** How many updates of groups an environment keeps on record of a day by default. */
const MAX_UPDATES = 100_000;

/** What bounds the audit trail. */
export interface AuditOptions {
  /**
   * How many updates of groups an environment keeps on record of a day; default 100,000. Callers decide how many are made,
   * and must not fill the store with them.
   */
  readonly maxUpdates?: number;
  /** Called with the number of updates that were removed because there were more; default: ignored. */
  readonly onDropped?: (environment: EnvironmentName, count: number) => void;
}

/** Changes environments, and has the events of these changes be written. */
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

  /** What the scripts that change an environment take. */
  argsOf(number: number, by: ChangeBy): ScriptArgs<"environment", EventArg> {
    const { actorId, actorName, role, method, requestId, peer } = by;
    const keptMs = this.retentionMs + ((number * 7919_000) % SPREAD_MS);
    const event = { keptMs, most: this.#maxUpdates, actorId, actorName, role, method, requestId, peer };
    return { environment: environmentKey(number), ...event };
  }
}

/** The days of the events that are kept, by their numbers since 1970. */
export function dayOf(ms: number): number {
  return Math.floor(ms / DAY_MS);
}

/** An environment's change. */
export interface EnvironmentChange {
  readonly client: StoreClient;
  readonly audit: Audit;
  readonly environment: Pick<Environment, "number">;
  readonly by: ChangeBy;
}

/** The errors for the answers by which scripts refuse a change. */
const REFUSALS: { readonly [answer: string]: (detail: string) => Error } = {
  gone: () => new EnvironmentNotFound(),
  unreadable: () => new RecordUnreadable(new Error("a record is not whole"), "not_made"),
  locked: (keyId) => keyMissing(keyId, { outcome: "not_made" }),
  "no-group": () => new UserGroupNotFound(),
  "no-token": () => new TokenNotFound(),
  stale: () => new EtagMismatch(),
  taken: () => new TokenTaken(),
  full: () => new EnvironmentFull(),
  reused: () => new RequestIdReused(),
  "too-many-viewers": () => new TooManyEndedViewers(),
  "no-api-token": () => new ApiTokenNotFound(),
  "too-many-api-tokens": () => new TooManyApiTokens(),
  "maker-revoked": () => new ApiTokenChanged(),
  outlives: () => new ApiTokenOutlivesCaller(),
};

/** The answer of a script to a change. @throws the error for a refusal */
export function requireNoRefusal(answer: string[]): string[] {
  const error = REFUSALS[answer[0] ?? ""]?.(answer[2] ?? "");
  if (error) throw error;
  return answer;
}

/**
 * Makes a change of an environment by one script.
 *
 * @throws EnvironmentNotFound if it is deleted, or its deletion has begun; the error for any other refusal; as
 *   `StoreClient.change`
 */
export async function changeEnvironment<Key extends string, Arg extends string>(
  { client, audit, environment, by }: EnvironmentChange,
  operation: string,
  script: EnvironmentScript<Key, Arg>,
  args: ScriptArgs<Exclude<Key, "environment">, Exclude<Arg, EventArg>>,
): Promise<string[]> {
  const all = { ...args, ...audit.argsOf(environment.number, by) };
  return requireNoRefusal(await client.change(operation, script as Script, all as ScriptArgs));
}

/** Writes an event with which no other change goes, or many. @throws as `changeEnvironment` */
export async function writeEvent(
  change: EnvironmentChange,
  { subject, changedFields }: { readonly subject: string; readonly changedFields: string },
): Promise<void> {
  await changeEnvironment(change, "record-audit-event", RECORD_EVENT, { subject, changedFields });
}
