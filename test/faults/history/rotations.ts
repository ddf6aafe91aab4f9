import { byGroup, type Call, fateOf, isOk, madeBy, sortedBy } from "./call.ts";

/** All attempts at one rotation: the calls with one request id, or a call without. */
export interface Rotation {
  readonly group: string;
  /** The token that it was to end; undefined: whichever the group had. */
  readonly from: string | undefined;
  /** The token that it was answered with; undefined: it was not acknowledged. */
  readonly made: string | undefined;
  /** It was made, if at all, at an instant from here, */
  readonly start: number;
  /** to here. */
  readonly end: number;
  readonly graceMs: number;
  readonly attempts: readonly Call[];
}

/** The rotations that were asked for. */
export function rotationsOf(calls: readonly Call[]): Rotation[] {
  return [...byGroup(calls).values()].flatMap((own) => {
    const rotations = own.filter(({ method }) => method === "rotate");
    const attempts = sortedBy<unknown, Call>(rotations, (call) => call.requestId ?? call);
    return [...attempts.values()].map(rotationOf);
  });
}

/** Whether a rotation may have been made. */
export function mayBeMade({ attempts }: Rotation): boolean {
  return attempts.some((call) => fateOf(call) !== "not made");
}

function rotationOf(attempts: readonly Call[]): Rotation {
  const [first] = attempts as [Call];
  const answered = attempts.filter(isOk);
  const possible = attempts.filter((call) => fateOf(call) !== "not made");
  return {
    group: first.group,
    from: first.token,
    made: answered[0]?.answer.seen.token,
    start: Math.min(...attempts.map(({ start }) => start)),
    end: answered.length > 0 ? Math.min(...answered.map(({ end }) => end)) : Math.max(...possible.map(madeBy)),
    graceMs: first.graceMs ?? 0,
    attempts,
  };
}
