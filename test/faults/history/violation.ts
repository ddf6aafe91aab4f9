/** Kinds of violations in a history. */
export type ViolationKind =
  | "no order"
  | "refused change was made"
  | "torn"
  | "team id"
  | "another's group"
  | "index"
  | "audit"
  | "disagreement"
  | "wrong outcome"
  | "unexpected";

/** A broken promise. */
export interface Violation {
  readonly kind: ViolationKind;
  /** Description for a reader, without tokens. */
  readonly text: string;
}

/** Promises that do not hold under a fault. */
export interface Allowances {
  /**
   * Whether a read may show an unacknowledged change that is lost later. Reads do not wait for replicas, so a failover
   * can cause that.
   */
  readonly mayForget: boolean;
  /** Maximum staleness of a read in milliseconds, for example from a master that does not know its successor yet. */
  readonly staleMs: number;
}

/** Every promise holds. */
export const STRICT: Allowances = { mayForget: false, staleMs: 0 };

/** Describes the promises for a reader. */
export function promiseText({ mayForget, staleMs }: Allowances): string {
  const promises = ["acknowledged changes are kept", "changes reported as not made are not made"];
  if (!mayForget) promises.push("changes that a read returned are kept");
  promises.push(staleMs === 0 ? "reads are up to date" : `reads are at most ${staleMs} ms stale`);
  return `promised: ${promises.join("; ")}`;
}

/** Shortens a token so that a reader cannot use it. */
export function shortOf(token: string): string {
  return `${token.slice(0, 4)}..${token.slice(-4)}`;
}
