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
  TooManyWebhooks,
  UserGroupExpired,
  UserGroupNotFound,
  WebhookNotFound,
} from "../domain/errors.ts";
import type { StoreClient } from "./connection/client.ts";
import type { Script, ScriptArgs } from "./connection/script.ts";
import { keyMissing } from "./encryption.ts";
import { environmentKey } from "./keys.ts";
import { type EnvironmentScript, type EventArg, RECORD_EVENT } from "./scripts.ts";

const DAY_MS = 86_400_000;

/** The streams of a day expire within this time, in milliseconds, so that Redis does not free all of them at once. */
const SPREAD_MS = 3_600_000;

/** Default of `maxUpdates`. */
const MAX_UPDATES = 100_000;

/** Limits of the audit trail. */
interface AuditOptions {
  /**
   * Maximum number of group updates that an environment keeps per day, so that callers cannot fill the store. Default: 100,000.
   */
  readonly maxUpdates?: number;
  /** Called with the number of trimmed updates. Default: no effect. */
  readonly onDropped?: (environment: EnvironmentName, count: number) => void;
}

/** The settings of the audit trail, and the arguments that its events need. */
export class Audit {
  /** Retention of events, in milliseconds. */
  readonly retentionMs: number;
  readonly onDropped: NonNullable<AuditOptions["onDropped"]>;
  readonly #maxUpdates: number;

  constructor(retentionMs: number, { maxUpdates = MAX_UPDATES, onDropped = () => {} }: AuditOptions = {}) {
    this.retentionMs = retentionMs;
    this.onDropped = onDropped;
    this.#maxUpdates = maxUpdates;
  }

  /** The common arguments of scripts that change an environment. */
  argsOf(number: number, by: ChangeBy): ScriptArgs<"environment", EventArg> {
    const { actorId, actorName, role, method, requestId, peer } = by;
    const retentionMs = this.retentionMs + ((number * 7919_000) % SPREAD_MS);
    const event = { retentionMs, maxUpdates: this.#maxUpdates, actorId, actorName, role, method, requestId, peer };
    return { environment: environmentKey(number), ...event };
  }
}

/** Days since 1970. */
export function dayOf(ms: number): number {
  return Math.floor(ms / DAY_MS);
}

/** The context of a change of an environment. */
interface EnvironmentChange {
  readonly client: StoreClient;
  readonly audit: Audit;
  readonly environment: Pick<Environment, "number">;
  readonly by: ChangeBy;
}

/** Answers of scripts that refuse a change, and their errors. @param detail third element of the answer */
const REFUSALS: { readonly [answer: string]: (detail: string) => Error } = {
  gone: () => new EnvironmentNotFound(),
  unreadable: () => new RecordUnreadable(new Error("a record lacks required fields"), "not_made"),
  locked: (keyId) => keyMissing(keyId, { outcome: "not_made" }),
  "no-group": () => new UserGroupNotFound(),
  "no-token": () => new TokenNotFound(),
  stale: () => new EtagMismatch(),
  expired: () => new UserGroupExpired(),
  taken: () => new TokenTaken(),
  full: () => new EnvironmentFull(),
  reused: () => new RequestIdReused(),
  "too-many-viewers": () => new TooManyEndedViewers(),
  "no-api-token": () => new ApiTokenNotFound(),
  "too-many-api-tokens": () => new TooManyApiTokens(),
  "issuer-revoked": () => new ApiTokenChanged(),
  "no-webhook": () => new WebhookNotFound(),
  "too-many-webhooks": () => new TooManyWebhooks(),
  outlives: () => new ApiTokenOutlivesCaller(),
};

/** Returns the answer of a script. @throws the error of a refusal (`REFUSALS`) */
export function requireNoRefusal(answer: string[]): string[] {
  const error = REFUSALS[answer[0] ?? ""]?.(answer[2] ?? "");
  if (error) throw error;
  return answer;
}

/** Arguments of a script that changes an environment, without those of its events. */
type ChangeArgs<Key extends string, Arg extends string> = ScriptArgs<
  Exclude<Key, "environment">,
  Exclude<Arg, EventArg>
>;

/** Sends a script that changes an environment. @returns its answer, which may be a refusal. @throws the errors of `StoreClient.change` */
export function sendChange<Key extends string, Arg extends string>(
  { client, audit, environment, by }: EnvironmentChange,
  operation: string,
  script: EnvironmentScript<Key, Arg>,
  args: ChangeArgs<Key, Arg>,
): Promise<string[]> {
  const all = { ...args, ...audit.argsOf(environment.number, by) };
  return client.change(operation, script as Script, all as ScriptArgs);
}

/**
 * Changes an environment by one script.
 *
 * @throws EnvironmentNotFound if it is deleted or in deletion; the errors of `REFUSALS` and of `StoreClient.change`
 */
export async function changeEnvironment<Key extends string, Arg extends string>(
  change: EnvironmentChange,
  operation: string,
  script: EnvironmentScript<Key, Arg>,
  args: ChangeArgs<Key, Arg>,
): Promise<string[]> {
  return requireNoRefusal(await sendChange(change, operation, script, args));
}

/** Writes an event on its own. @throws the errors of `changeEnvironment` */
export async function writeEvent(
  change: EnvironmentChange,
  { subject, changedFields }: { readonly subject: string; readonly changedFields: string },
): Promise<void> {
  await changeEnvironment(change, "record-audit-event", RECORD_EVENT, { subject, changedFields });
}
