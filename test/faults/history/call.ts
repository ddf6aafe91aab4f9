/** What became of a change that was asked for, as far as the caller was told. */
export type Fate = "made" | "perhaps" | "not made";

/** A group as an answer shows it. */
export interface Seen {
  readonly id: string;
  readonly teamId: number;
  readonly name: string;
  /** What the mapping holds: every change sets it to the name. */
  readonly mapped: string;
  /** Undefined in what viewers are shown. */
  readonly token?: string | undefined;
  /** Undefined in what viewers are shown. */
  readonly etag?: string | undefined;
}

/** How a call ended. */
export type Answer =
  | {
      readonly code: "ok";
      /** Whether the call has created the group. */
      readonly created: boolean;
      readonly seen: Seen;
      readonly reason?: never;
      readonly outcome?: never;
    }
  | {
      /** Of a deletion or an import, which show nothing. */
      readonly code: "ok";
      /** Whether an import has created the group. */
      readonly created: boolean;
      readonly seen?: never;
      readonly reason?: never;
      readonly outcome?: never;
    }
  | {
      /** As Connect names it. */
      readonly code: string;
      /** Undefined: the error is not of the service but of the connection to it. */
      readonly reason: string | undefined;
      readonly outcome: string | undefined;
      readonly created?: never;
      readonly seen?: never;
    };

/** A call to a worker. Times are in milliseconds, all by one clock. */
export interface Call {
  /**
   * The id of the request as the audit trail has it, which no two calls about one group share: an import of several groups
   * is a call about each. Undefined: it was not sent.
   */
  readonly id?: string | undefined;
  readonly method: "get" | "update" | "rotate" | "resolve" | "delete" | "revoke" | "import";
  readonly worker: string;
  /** The environment that it was made in. */
  readonly environment: string;
  /** The group that was asked for, or that the token was given out for, as `groupOf` names it. */
  readonly group: string;
  /** The token that was presented; undefined: the group was asked for by id. */
  readonly token?: string | undefined;
  /** The token of another system that an import gives the group; no two imports give one group the same. */
  readonly given?: string | undefined;
  /** The name that a change, or a creation, gives the group; no two calls give the same. */
  readonly value?: string | undefined;
  readonly requestId?: string | undefined;
  /** How long the token that a rotation ends stays valid. */
  readonly graceMs?: number | undefined;
  readonly start: number;
  readonly end: number;
  /** Whether the load was over when it was made, and all of Redis well. */
  readonly isFinal?: boolean | undefined;
  readonly answer: Answer;
}

/** A call that was answered with a group. */
export type AnsweredCall = Call & { readonly answer: Extract<Answer, { seen: Seen }> };

/** The name of a group among all environments. */
export function groupOf(environment: string, id: string): string {
  return `${environment}/${id}`;
}

/** Whether a call was answered with a group. */
export function isOk(call: Call): call is AnsweredCall {
  return call.answer.seen !== undefined;
}

/** Whether a call was answered without an error. */
export function isDone({ answer }: Call): boolean {
  return answer.code === "ok";
}

/** What became of the change that a call asked for. */
export function fateOf(call: Call): Fate {
  const { answer } = call;
  if (isDone(call)) return "made";
  // What the service refuses for another reason than its store was not done.
  const isRefusal = answer.reason !== undefined && answer.code !== "unavailable";
  return isRefusal || answer.outcome === "not_made" ? "not made" : "perhaps";
}

/** Until when the change of a call can have been made: not after the service has answered. */
export function madeBy(call: Call): number {
  return isDone(call) || call.answer.reason !== undefined ? call.end : Number.POSITIVE_INFINITY;
}

/** The calls of each group. */
export function byGroup(calls: readonly Call[]): ReadonlyMap<string, readonly Call[]> {
  return sortedBy(calls, ({ group }) => group);
}

/** What has the same key, by that key. */
export function sortedBy<K, V>(values: readonly V[], keyOf: (value: V) => K): ReadonlyMap<K, readonly V[]> {
  const sorted = new Map<K, V[]>();
  for (const value of values) {
    const key = keyOf(value);
    const known = sorted.get(key);
    if (known) known.push(value);
    else sorted.set(key, [value]);
  }
  return sorted;
}
