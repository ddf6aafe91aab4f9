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

export interface Violation {
  readonly kind: ViolationKind;
  /** Explanation for the developer. Contains no full token. */
  readonly text: string;
}

/** The exceptions that one kind of fault allows. In these cases, the service need not keep its promises. */
export interface Allowances {
  /**
   * Whether a change that was not acknowledged may be lost even if a read has shown the change. Reads do not wait for
   * replicas. So a read can show a change that no replica has, and a failover can lose this change.
   */
  readonly mayForget: boolean;
  /**
   * Maximum age of the state that a read may show, in milliseconds. After another node has replaced a master, the old
   * master can return old values until it becomes a replica.
   */
  readonly staleMs: number;
}

export const STRICT: Allowances = { mayForget: false, staleMs: 0 };

export function promiseText({ mayForget, staleMs }: Allowances): string {
  const promises = ["acknowledged changes are kept", "changes reported as not made are not made"];
  if (!mayForget) promises.push("changes that a read returned are kept");
  promises.push(staleMs === 0 ? "reads are up to date" : `reads are at most ${staleMs} ms stale`);
  return `promised: ${promises.join("; ")}`;
}

/** Removes the middle of a token, so that nobody can use the result as a token. */
export function shortOf(token: string): string {
  return `${token.slice(0, 4)}..${token.slice(-4)}`;
}
