/** Outcome of a change, derived from the answer that the caller received. */
export type Fate = "made" | "perhaps" | "not made";

export interface Seen {
  readonly id: string;
  readonly teamId: number;
  readonly name: string;
  /** Value in the group's mapping. Every change sets this value to the name. */
  readonly mapped: string;
  /** Undefined in answers to viewers, and if the group is suspended. */
  readonly token?: string | undefined;
  readonly etag?: string | undefined;
  /** Undefined if the answer does not show whether the group is suspended. */
  readonly isSuspended?: boolean | undefined;
}

export type Answer =
  | {
      readonly code: "ok";
      readonly created: boolean;
      readonly seen: Seen;
      readonly reason?: never;
      readonly outcome?: never;
    }
  | {
      /** Deletions and imports succeed without a group in the answer. */
      readonly code: "ok";
      readonly created: boolean;
      readonly seen?: never;
      readonly reason?: never;
      readonly outcome?: never;
    }
  | {
      /** Name of the code in Connect, such as `not_found`. */
      readonly code: string;
      /** Undefined if the connection failed and the service sent no error. */
      readonly reason: string | undefined;
      readonly outcome: string | undefined;
      readonly created?: never;
      readonly seen?: never;
    };

/**
 * A call to a worker, or the part of a call that concerns one group. All times are in milliseconds and from the same
 * clock.
 */
export interface Call {
  /**
   * Request id in the audit trail, unique per group. An import of several groups counts as one call per group, with the
   * same id. Undefined if the call was not sent.
   */
  readonly id?: string | undefined;
  readonly method: "get" | "update" | "rotate" | "resolve" | "delete" | "revoke" | "import" | "suspend" | "resume";
  readonly worker: string;
  readonly environment: string;
  /** The requested group, or the group whose token the caller presented, in the format of `groupOf`. */
  readonly group: string;
  /** Token that the caller presented. Undefined if the call contains the id of the group. */
  readonly token?: string | undefined;
  /** Foreign token that an import sets. Each import of a group uses a new token. */
  readonly given?: string | undefined;
  /** Name that a change or creation sets, different in each call. */
  readonly value?: string | undefined;
  readonly requestId?: string | undefined;
  readonly graceMs?: number | undefined;
  readonly start: number;
  readonly end: number;
  /** Whether the call was made after the load, while every Redis node was up. */
  readonly isFinal?: boolean | undefined;
  readonly answer: Answer;
}

export type AnsweredCall = Call & { readonly answer: Extract<Answer, { seen: Seen }> };

export function groupOf(environment: string, id: string): string {
  return `${environment}/${id}`;
}

export function isOk(call: Call): call is AnsweredCall {
  return call.answer.seen !== undefined;
}

export function isDone({ answer }: Call): boolean {
  return answer.code === "ok";
}

export function fateOf(call: Call): Fate {
  const { answer } = call;
  if (isDone(call)) return "made";
  // If the service refuses a call for any reason but the store, the change was not made.
  const isRefusal = answer.reason !== undefined && answer.code !== "unavailable";
  return isRefusal || answer.outcome === "not_made" ? "not made" : "perhaps";
}

/**
 * Returns the latest possible time of a call's change: the time of the service's answer. Without an answer, returns
 * infinity.
 */
export function madeBy(call: Call): number {
  return isDone(call) || call.answer.reason !== undefined ? call.end : Number.POSITIVE_INFINITY;
}

export function byGroup(calls: readonly Call[]): ReadonlyMap<string, readonly Call[]> {
  return sortedBy(calls, ({ group }) => group);
}

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
