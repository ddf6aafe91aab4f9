import { byGroup, type Call, fateOf, isDone, isOk, madeBy, sortedBy } from "./call.ts";

/**
 * What ends the token that a group has: a rotation, a revocation, a deletion, or the import of another token. With all
 * attempts at it: the calls with one request id, or a call without.
 */
export interface Ending {
  readonly method: Call["method"];
  readonly group: string;
  /** The token that it was to end; undefined: whichever the group had. */
  readonly from: string | undefined;
  /** Whether it was acknowledged. */
  readonly isMade: boolean;
  /** The token that it gave as far as its caller was told; undefined also when it was not acknowledged. */
  readonly made: string | undefined;
  /** It was made, if at all, at an instant from here, */
  readonly start: number;
  /** to here. */
  readonly end: number;
  readonly graceMs: number;
  readonly attempts: readonly Call[];
}

const METHODS: ReadonlySet<Call["method"]> = new Set(["rotate", "revoke", "delete", "import"]);

/** The endings that were asked for. */
export function endingsOf(calls: readonly Call[]): Ending[] {
  return [...byGroup(calls).values()].flatMap((own) => {
    const endings = own.filter(({ method }) => METHODS.has(method));
    const attempts = sortedBy<unknown, Call>(endings, (call) => call.requestId ?? call);
    return [...attempts.values()].map(endingOf);
  });
}

/** Whether it may have been made. */
export function mayBeMade({ attempts }: Pick<Ending, "attempts">): boolean {
  return attempts.some((call) => fateOf(call) !== "not made");
}

/** When each value was first shown by an answer to a call. */
export function firstShown<V>(calls: readonly Call[], shownBy: (call: Call) => V | undefined): ReadonlyMap<V, number> {
  const first = new Map<V, number>();
  for (const call of calls) {
    const value = shownBy(call);
    if (value !== undefined) first.set(value, Math.min(call.end, first.get(value) ?? call.end));
  }
  return first;
}

/** The token that a call was answered with, or has given as it was asked to. */
export function tokenShown(call: Call): string | undefined {
  return isDone(call) && call.given !== undefined ? call.given : call.answer.seen?.token;
}

function endingOf(attempts: readonly Call[]): Ending {
  const [first] = attempts as [Call];
  const done = attempts.filter(isDone);
  const possible = attempts.filter((call) => fateOf(call) !== "not made");
  return {
    method: first.method,
    group: first.group,
    from: first.token,
    isMade: done.length > 0,
    made: done.length > 0 ? (first.given ?? attempts.find(isOk)?.answer.seen.token) : undefined,
    start: Math.min(...attempts.map(({ start }) => start)),
    end: done.length > 0 ? Math.min(...done.map(({ end }) => end)) : Math.max(...possible.map(madeBy)),
    graceMs: first.graceMs ?? 0,
    attempts,
  };
}
