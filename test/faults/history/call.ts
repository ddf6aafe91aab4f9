/** Outcome of a change, as far as the caller knows. */
export type Fate = "made" | "perhaps" | "not made";

/** A group in an answer. */
export interface Seen {
  readonly id: string;
  readonly teamId: number;
  readonly name: string;
  /** The mapping. Every change sets it to the name. */
  readonly mapped: string;
  /** Undefined in answers to viewers, and while the group is suspended. */
  readonly token?: string | undefined;
  /** Undefined in answers to viewers. */
  readonly etag?: string | undefined;
  /** Undefined: the answer does not contain the state. */
  readonly isSuspended?: boolean | undefined;
}

/** The result of a call. */
export type Answer =
  | {
      readonly code: "ok";
      /** Whether the call created the group. */
      readonly created: boolean;
      readonly seen: Seen;
      readonly reason?: never;
      readonly outcome?: never;
    }
  | {
      /** The answer of a deletion or an import, which shows no group. */
      readonly code: "ok";
      /** Whether an import created the group. */
      readonly created: boolean;
      readonly seen?: never;
      readonly reason?: never;
      readonly outcome?: never;
    }
  | {
      /** Connect's name of the code. */
      readonly code: string;
      /** Undefined: the error comes from the connection, not from the service. */
      readonly reason: string | undefined;
      readonly outcome: string | undefined;
      readonly created?: never;
      readonly seen?: never;
    };

/** A call to a worker. All times are in milliseconds of one clock. */
export interface Call {
  /**
   * The request id in the audit trail. Two calls for one group never have the same id. An import of several groups
   * counts as one call for each group. Undefined: the call was not sent.
   */
  readonly id?: string | undefined;
  readonly method: "get" | "update" | "rotate" | "resolve" | "delete" | "revoke" | "import" | "suspend" | "resume";
  readonly worker: string;
  /** The environment of the call. */
  readonly environment: string;
  /** The requested group, or the group whose token was presented, in the form of `groupOf`. */
  readonly group: string;
  /** The token that the caller presented. Undefined: the call named the group by id. */
  readonly token?: string | undefined;
  /** The foreign token that an import gives the group. No two imports give one group the same token. */
  readonly given?: string | undefined;
  /** The name that a change or a creation sets. No two calls set the same name. */
  readonly value?: string | undefined;
  readonly requestId?: string | undefined;
  /** Grace period of the old token of a rotation, in milliseconds. */
  readonly graceMs?: number | undefined;
  readonly start: number;
  readonly end: number;
  /** Whether the call came after the load, when all of Redis was up. */
  readonly isFinal?: boolean | undefined;
  readonly answer: Answer;
}

/** A call whose answer shows a group. */
export type AnsweredCall = Call & { readonly answer: Extract<Answer, { seen: Seen }> };

/** Returns the name of a group that is unique among all environments. */
export function groupOf(environment: string, id: string): string {
  return `${environment}/${id}`;
}

/** Returns whether the answer of a call shows a group. */
export function isOk(call: Call): call is AnsweredCall {
  return call.answer.seen !== undefined;
}

/** Returns whether a call succeeded. */
export function isDone({ answer }: Call): boolean {
  return answer.code === "ok";
}

/** Returns the outcome of the change that a call requested. */
export function fateOf(call: Call): Fate {
  const { answer } = call;
  if (isDone(call)) return "made";
  // If the reason of a refusal is not the store, the change was not made.
  const isRefusal = answer.reason !== undefined && answer.code !== "unavailable";
  return isRefusal || answer.outcome === "not_made" ? "not made" : "perhaps";
}

/** Returns the latest possible time of a call's change: the time of the answer of the service, otherwise infinity. */
export function madeBy(call: Call): number {
  return isDone(call) || call.answer.reason !== undefined ? call.end : Number.POSITIVE_INFINITY;
}

/** Groups calls by their group. */
export function byGroup(calls: readonly Call[]): ReadonlyMap<string, readonly Call[]> {
  return sortedBy(calls, ({ group }) => group);
}

/** Groups items by a key. */
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
