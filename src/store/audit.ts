import type { ChangeBy } from "../domain/audit.ts";
import type { Environment, EnvironmentName } from "../domain/environment.ts";
import { EnvironmentNotFound } from "../domain/errors.ts";
import type { StoreClient } from "./connection/client.ts";
import { changeScript, type Script, type ScriptArgs, type ScriptDefinition } from "./connection/script.ts";
import { type EventStream, environmentKey } from "./keys.ts";
import recordEvent from "./scripts/record-event.lua" with { type: "text" };

/** What a script that changes an environment takes beside its own arguments (`parts/environment.lua`). */
const EVENT_ARGS = ["keptMs", "most", "actorId", "actorName", "role", "method", "requestId", "peer"] as const;

type EventArg = (typeof EVENT_ARGS)[number];

/** A script that changes an environment, and writes audit events. */
export type EnvironmentScript<Key extends string = string, Arg extends string = string> = Script<
  Key | "environment",
  Arg | EventArg
>;

interface EnvironmentScriptDefinition<Key extends string, Arg extends string>
  extends Omit<ScriptDefinition<Key, Arg>, "keys"> {
  readonly keys?: readonly Key[];
  /** The state that the environment must be in; default: `active`; empty: there must be no environment. */
  readonly state?: "active" | "deleting" | "";
  /** Where its events go. Default: `events`. */
  readonly stream?: EventStream;
}

/** A script that changes an environment, and writes an event of the change by `audit`. */
export function environmentScript<const Key extends string = never, const Arg extends string = never>(
  name: string,
  { keys = [], args = [], lua, state = "active", stream = "events", ...options }: EnvironmentScriptDefinition<Key, Arg>,
): EnvironmentScript<Key, Arg> {
  return changeScript<Key | "environment", Arg | EventArg>(name, {
    ...options,
    keys: ["environment", ...keys],
    args: [...args, ...EVENT_ARGS],
    lua: `local state, stream = '${state}', '${stream}'\n-- include: environment\n${lua}`,
  });
}

/** Writes an event that no other change goes with. */
const RECORD_EVENT = environmentScript("record-event", { args: ["subject", "changedFields"], lua: recordEvent });

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

/**
 * Makes a change of an environment by one script.
 *
 * @throws EnvironmentNotFound if it is deleted, or its deletion has begun; as `StoreClient.change`
 */
export async function changeEnvironment<Key extends string, Arg extends string>(
  { client, audit, environment, by }: EnvironmentChange,
  operation: string,
  script: EnvironmentScript<Key, Arg>,
  args: ScriptArgs<Exclude<Key, "environment">, Exclude<Arg, EventArg>>,
): Promise<string[]> {
  const all = { ...args, ...audit.argsOf(environment.number, by) };
  const answer = await client.change(operation, script as Script, all as ScriptArgs);
  if (answer[0] === "gone") throw new EnvironmentNotFound();
  return answer;
}

/** Writes an event with which no other change goes, or many. @throws as `changeEnvironment` */
export async function writeEvent(
  change: EnvironmentChange,
  { subject, changedFields }: { readonly subject: string; readonly changedFields: string },
): Promise<void> {
  await changeEnvironment(change, "record-audit-event", RECORD_EVENT, { subject, changedFields });
}
