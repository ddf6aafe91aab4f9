import type { ChangeBy } from "../domain/audit.ts";
import { DAY_MS, HOUR_MS } from "../domain/durations.ts";
import type { Environment, EnvironmentName } from "../domain/environment.ts";
import * as errors from "../domain/errors.ts";
import type { StoreClient } from "./connection/client.ts";
import type { Script, ScriptArgs } from "./connection/script.ts";
import { keyMissing } from "./encryption.ts";
import { KEYS, type KeyArgs } from "./keys.ts";
import { type EnvironmentScript, type EventArg, RECORD_EVENT } from "./scripts.ts";

/**
 * The maximum time that is added to the retention, in milliseconds. The added time depends on the environment, so that
 * Redis does not free all streams of a day at the same time.
 */
const SPREAD_MS = HOUR_MS;

const MAX_UPDATES = 100_000;

interface AuditOptions {
  /** The maximum number of stored group updates per environment and day. Default: 100,000. */
  readonly maxUpdates?: number;
  /** Called when the limit removes updates. `count` is the number of removed updates. Default: no effect. */
  readonly onDropped?: (environment: EnvironmentName, count: number) => void;
}

/** The settings of the audit trail. Scripts that write events get these settings as arguments. */
export class Audit {
  readonly retentionMs: number;
  readonly onDropped: NonNullable<AuditOptions["onDropped"]>;
  readonly #maxUpdates: number;

  constructor(retentionMs: number, { maxUpdates = MAX_UPDATES, onDropped = () => {} }: AuditOptions = {}) {
    this.retentionMs = retentionMs;
    this.onDropped = onDropped;
    this.#maxUpdates = maxUpdates;
  }

  /** Returns the arguments that a script needs to write its audit events. */
  argsOf(number: number, by: ChangeBy): ScriptArgs<never, EventArg> {
    const { actorId, actorName, role, method, requestId, peer } = by;
    const retentionMs = this.retentionMs + ((number * 7919_000) % SPREAD_MS);
    return { retentionMs, maxUpdates: this.#maxUpdates, actorId, actorName, role, method, requestId, peer };
  }
}

export function dayOf(ms: number): number {
  return Math.floor(ms / DAY_MS);
}

interface EnvironmentChange {
  readonly client: StoreClient;
  readonly audit: Audit;
  readonly environment: Pick<Environment, "number">;
  readonly by: ChangeBy;
}

/**
 * Returns the answer of a script. If the first element of the answer is the name of an error, throws this error.
 *
 * @throws EnvironmentNotFound if the environment is deleted or being deleted; RecordUnreadable
 */
export function requireNoRefusal(answer: string[]): string[] {
  const [outcome = "", , detail = ""] = answer;
  if (outcome === "gone") throw new errors.EnvironmentNotFound();
  if (outcome === "unreadable")
    throw new errors.RecordUnreadable(new Error("a record lacks required fields"), "not_made");
  if (outcome === "locked") throw keyMissing(detail, "not_made");
  const Refusal = (errors as { readonly [name: string]: unknown })[outcome];
  if (Refusal !== undefined) throw new (Refusal as new () => errors.DomainError)();
  return answer;
}

type ChangeArgs<Arg extends string> = ScriptArgs<never, Exclude<Arg, EventArg>>;

/** Sends a script that changes an environment. Returns the answer of the script, even if the answer is a refusal. */
export function sendChange<Arg extends string>(
  { client, audit, environment: { number }, by }: EnvironmentChange,
  operation: string,
  script: EnvironmentScript<Arg>,
  args: ChangeArgs<Arg>,
): Promise<string[]> {
  const all: Record<string, unknown> = { ...args, ...audit.argsOf(number, by) };
  for (const key of script.keys) all[key] = KEYS[key](number, args as KeyArgs);
  return client.change(operation, script as Script, all as ScriptArgs);
}

/** Changes an environment with one script. @throws the errors of `requireNoRefusal` and of `StoreClient.change` */
export async function changeEnvironment<Arg extends string>(
  change: EnvironmentChange,
  operation: string,
  script: EnvironmentScript<Arg>,
  args: ChangeArgs<Arg>,
): Promise<string[]> {
  return requireNoRefusal(await sendChange(change, operation, script, args));
}

/** Writes an audit event, and changes no other data. @throws the errors of `changeEnvironment` */
export async function writeEvent(
  change: EnvironmentChange,
  { subject, changedFields }: { readonly subject: string; readonly changedFields: string },
): Promise<void> {
  await changeEnvironment(change, "record-audit-event", RECORD_EVENT, { subject, changedFields });
}
