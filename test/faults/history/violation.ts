/** What can be wrong with a history. */
export type ViolationKind =
  | "no order"
  | "not made was made"
  | "torn"
  | "team id"
  | "another's group"
  | "index"
  | "audit"
  | "disagreement"
  | "not told"
  | "unforeseen";

/** Something that must not be. */
export interface Violation {
  readonly kind: ViolationKind;
  /** What, for a reader. It holds no token. */
  readonly text: string;
}

/** What is not promised under a fault. */
export interface Allowances {
  /**
   * Whether a change that was not acknowledged may be seen and be gone again, as after a failover: reads do not wait
   * for replicas.
   */
  readonly mayForget: boolean;
  /** How far back, in milliseconds, what a read shows may lie, as of a master that does not know of the next one yet. */
  readonly staleMs: number;
}

/** Everything is promised. */
export const STRICT: Allowances = { mayForget: false, staleMs: 0 };

/** What is promised, for a reader. */
export function promiseText({ mayForget, staleMs }: Allowances): string {
  const promises = ["what was acknowledged is kept", "what was said not to be made is not"];
  if (!mayForget) promises.push("what was once read is not forgotten");
  promises.push(staleMs === 0 ? "reads are up to date" : `reads are at most ${staleMs} ms behind`);
  return `promised: ${promises.join("; ")}`;
}

/** A token for a reader, who could not use it. */
export function shortOf(token: string): string {
  return `${token.slice(0, 4)}..${token.slice(-4)}`;
}
