/** Outcome of a change, derived from the answer that the caller received. */
export type Fate = "made" | "perhaps" | "not made";

export interface Seen {
  readonly id: string;
  readonly teamId: number;
  readonly name: string;
  /** A value in the mapping of the group. Every change sets this value and the name to the same text. */
  readonly mapped: string;
  /** Undefined if the answer is for a viewer, or if the group is suspended. */
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
      /** The answer of a deletion or an import that succeeded. Such an answer contains no group. */
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
 * A call to a worker. A call for several groups has one `Call` for each group. All times are in milliseconds and from
 * the same clock.
 */
export interface Call {
  /**
   * Request id of the call in the audit trail. No two calls to the same group have the same id. An import of several
   * groups counts as one call per group, and these calls have the same id. Undefined if the call was not sent.
   */
  readonly id?: string | undefined;
  readonly method: "get" | "update" | "rotate" | "resolve" | "delete" | "revoke" | "import" | "suspend" | "resume";
  readonly worker: string;
  readonly environment: string;
  /** The group, in the format of `groupOf`. A call with a token concerns the group to which the token was issued. */
  readonly group: string;
  /** Token that the caller presented. Undefined if the call names the group by its id. */
  readonly token?: string | undefined;
  /** Foreign token (a token that this service has not issued) that an import sets. Each import uses a new token. */
  readonly given?: string | undefined;
  /** Name that a change or a creation sets. No two calls set the same name. */
  readonly value?: string | undefined;
  readonly requestId?: string | undefined;
  readonly graceMs?: number | undefined;
  readonly start: number;
  readonly end: number;
  /** Whether the call was made after the end of the load, when every Redis node was up again. */
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
  // If the answer has a reason and its code is not `unavailable`, the service refused the call and made no change.
  const isRefusal = answer.reason !== undefined && answer.code !== "unavailable";
  return isRefusal || answer.outcome === "not_made" ? "not made" : "perhaps";
}

/**
 * Returns the latest time at which the service can have committed the change of a call. If the service sent an answer,
 * returns the time of the answer. Otherwise returns infinity, because the service may still commit the change.
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
