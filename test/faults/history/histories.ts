import { expect } from "vitest";
import type { StoredEvent } from "./audit.ts";
import type { Answer, Call } from "./call.ts";
import { check, type History } from "./check.ts";
import type { StoredEnvironment, StoredGroup } from "./stored.ts";
import { STRICT, type ViolationKind } from "./violation.ts";

/**
 * The tests of the checker use histories of the group `a` in the environment `one`. The first call of a history creates
 * this group with the token `t0` and the name `n0`.
 */

/**
 * Creates an answer that shows the group `a`. If `seen` does not contain a field, the answer shows the value that the
 * creation of the group has set.
 */
export function shown(seen: Partial<Extract<Answer, { code: "ok" }>["seen"]> = {}, created = false): Answer {
  const { name = "n0" } = seen;
  return {
    code: "ok",
    created,
    seen: { id: "a", teamId: 1, name, mapped: name, token: "t0", etag: `e-${seen.token ?? "t0"}`, ...seen },
  };
}

export const DONE: Answer = { code: "ok", created: false };
export const NOT_MADE: Answer = { code: "unavailable", reason: "STORE_UNAVAILABLE", outcome: "not_made" };
export const UNKNOWN: Answer = { code: "unavailable", reason: "STORE_UNAVAILABLE", outcome: "unknown" };
export const UNREAD: Answer = { code: "unavailable", reason: "STORE_UNAVAILABLE", outcome: undefined };
export const CUT_OFF: Answer = { code: "aborted", reason: undefined, outcome: undefined };
export const NO_TOKEN: Answer = { code: "not_found", reason: "TOKEN_NOT_FOUND", outcome: undefined };
export const SUSPENDED: Answer = {
  code: "failed_precondition",
  reason: "USER_GROUP_SUSPENDED",
  outcome: undefined,
};
export const NO_GROUP: Answer = { code: "not_found", reason: "USER_GROUP_NOT_FOUND", outcome: undefined };

/** A call of a history. If the nth call has no times, it lasts from 2n to 2n + 1, so that such calls do not overlap. */
export type CallAt = Omit<Call, "start" | "end"> & Partial<Call>;

/** @param more fields of the call that differ from the defaults */
export function call(method: Call["method"], answer: Answer, more: Partial<Call> = {}): CallAt {
  return { method, worker: "w", environment: "one", group: "one/a", answer, ...more };
}

export function at([start, end]: readonly [number, number], reported: CallAt): Call {
  return { ...reported, start, end };
}

export const created = at([0, 1], call("get", shown({}, true), { value: "n0" }));

export function update(value: string, answer: Answer = shown({ name: value })): CallAt {
  return call("update", answer, { value });
}

/** Creates a GetUserGroup call whose answer shows the group. */
export function get(seen: Parameters<typeof shown>[0] = {}, more: Partial<Call> = {}): CallAt {
  return call("get", shown(seen), more);
}

/** Creates a rotation. If `to` is a string, the rotation succeeds with this token. Otherwise, `to` is the answer. */
export function rotate(to: string | Answer, more: Partial<Call> = {}): CallAt {
  return call("rotate", typeof to === "string" ? shown({ token: to }) : to, more);
}

export function remove(answer: Answer = DONE): CallAt {
  return call("delete", answer);
}

export function revoke(answer: Answer = shown({ token: undefined }), more: Partial<Call> = {}): CallAt {
  return call("revoke", answer, more);
}

export function suspend(answer: Answer = shown({ token: undefined, isSuspended: true })): CallAt {
  return call("suspend", answer);
}

export function resume(answer: Answer = shown({ token: undefined, isSuspended: false })): CallAt {
  return call("resume", answer);
}

/** Creates an import of the token `given`. The import also sets the name of the group to `name of <given>`. */
export function imported(given: string, answer: Answer = DONE): CallAt {
  return call("import", answer, { given, value: `name of ${given}` });
}

/** Creates a GetUserGroup call that creates the deleted group again. The new group has another team id and token. */
export function recreate(seen: Parameters<typeof shown>[0] = {}): CallAt {
  const recreated = { teamId: 2, token: "u0", name: "m0", ...seen };
  return call("get", shown(recreated, true), { value: recreated.name });
}

export function resolve(token: string, answer: Answer = shown({ token: undefined })): CallAt {
  return call("resolve", answer, { token });
}

/**
 * Returns a history. The first call of the history has the id `c0`, and creates the group. The given calls follow with
 * ids from `c1`.
 */
function historyOf(calls: readonly CallAt[]): Call[] {
  return [created, ...calls].map((reported, n) => ({ id: `c${n}`, start: 2 * n, end: 2 * n + 1, ...reported }));
}

export function kindsOf(calls: readonly CallAt[], more: Partial<History> = {}): ViolationKind[] {
  const violations = check({ calls: historyOf(calls), stored: [], allow: STRICT, workersEnd: false, ...more });
  return [...new Set(violations.map(({ kind }) => kind))];
}

export function finds(
  kinds: ViolationKind | readonly ViolationKind[],
  calls: readonly CallAt[],
  more: Partial<History> = {},
): void {
  expect(kindsOf(calls, more)).toEqual([kinds].flat());
}

export function passes(calls: readonly CallAt[], more: Partial<History> = {}): void {
  finds([], calls, more);
}

export function event(requestId: string, method: string, group = "a"): StoredEvent {
  return { requestId, method, group };
}

/** Returns the contents of Redis after the creation of the group `a`. */
export function stored(more: {
  groups?: readonly Partial<StoredGroup>[];
  tokens?: ReadonlyMap<string, string>;
  ids?: readonly string[];
  count?: number;
  events?: readonly StoredEvent[];
}): StoredEnvironment {
  const group: StoredGroup = {
    ...{ id: "a", teamId: 1, digest: "digest of t0", graceDigest: undefined },
    has: { own: true, foreign: false },
  };
  return {
    environment: "one",
    groups: (more.groups ?? [{}]).map((given) => ({ ...group, ...given })),
    tokens: more.tokens ?? new Map([["digest of t0", "a"]]),
    ids: more.ids ?? ["a"],
    count: more.count ?? 1,
    events: more.events ?? [event("c0", "GetUserGroup")],
    digestOf: (token) => `digest of ${token}`,
  };
}
