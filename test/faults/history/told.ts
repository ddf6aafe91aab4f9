import type { StoredEvent } from "./audit.ts";
import type { Answer, Call } from "./call.ts";
import { check, type History } from "./check.ts";
import type { StoredEnvironment, StoredGroup, StoredPartition } from "./stored.ts";
import { STRICT } from "./violation.ts";

/*
 * Histories for the tests of the checker, about the group `a` of the environment `one`, which the first call creates
 * with the token `t0` and the name `n0`.
 */

/** When a call began and ended. */
type Span = readonly [number, number];

/** The answer that shows a group; default: the group `a` as it was created. */
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
export const NO_GROUP: Answer = { code: "not_found", reason: "USER_GROUP_NOT_FOUND", outcome: undefined };

/** Makes a call. @param more what is special about it */
export function call(method: Call["method"], [start, end]: Span, answer: Answer, more: Partial<Call> = {}): Call {
  return { method, worker: "w", environment: "one", group: "one/a", start, end, answer, ...more };
}

export const created = call("get", [0, 1], shown({}, true), { value: "n0" });

/** An Update that sets the name. */
export function update(value: string, span: Span, answer: Answer = shown({ name: value })): Call {
  return call("update", span, answer, { value });
}

/** A Get that finds the group. */
export function get(span: Span, seen: Parameters<typeof shown>[0] = {}, more: Partial<Call> = {}): Call {
  return call("get", span, shown(seen), more);
}

/** A Rotate. @param to the token that it was answered with, or how it failed */
export function rotate(span: Span, to: string | Answer, more: Partial<Call> = {}): Call {
  return call("rotate", span, typeof to === "string" ? shown({ token: to }) : to, more);
}

/** A DeleteUserGroup. @param answer default: it was made */
export function remove(span: Span, answer: Answer = DONE): Call {
  return call("delete", span, answer);
}

/** A RevokeUserGroupTokens. @param answer default: it was made */
export function revoke(span: Span, answer: Answer = shown({ token: undefined }), more: Partial<Call> = {}): Call {
  return call("revoke", span, answer, more);
}

/** An import of the group with the name `NAME of TOKEN`. @param answer default: it changed the group */
export function imported(given: string, span: Span, answer: Answer = DONE): Call {
  return call("import", span, answer, { given, value: `name of ${given}` });
}

/** A Get that creates the group anew, with another team id and token. */
export function recreated(span: Span, seen: Parameters<typeof shown>[0] = {}): Call {
  const anew = { teamId: 2, token: "u0", name: "m0", ...seen };
  return call("get", span, shown(anew, true), { value: anew.name });
}

/** A ResolveViewer. @param answer default: it shows the group */
export function resolve(token: string, span: Span, answer: Answer = shown({ token: undefined })): Call {
  return call("resolve", span, answer, { token });
}

/** The kinds of what is wrong with a history. The creation of the group is a part of it. */
export function kindsOf(calls: readonly Call[], more: Partial<History> = {}): string[] {
  const violations = check({ calls: [created, ...calls], stored: [], allow: STRICT, workersEnd: false, ...more });
  return [...new Set(violations.map(({ kind }) => kind))];
}

/** What Redis holds when only the group `a` was created. */
export function stored(more: {
  groups?: readonly Partial<StoredGroup>[];
  partition?: Partial<StoredPartition>;
  events?: readonly StoredEvent[];
}): StoredEnvironment {
  const group: StoredGroup = {
    ...{ id: "a", partition: 0, teamId: 1, digest: "digest of t0", graceDigest: undefined },
    has: { own: true, foreign: false },
  };
  return {
    environment: "one",
    groups: (more.groups ?? [{}]).map((given) => ({ ...group, ...given })),
    partitions: [
      {
        partition: 0,
        tokens: new Map([["of t0", "a"]]),
        ids: ["a"],
        foreign: new Map(),
        graces: new Map(),
        count: 1,
        ...more.partition,
      },
    ],
    events: more.events ?? [],
    partitionOf: () => 0,
    indexed: (digest) => digest.slice(7),
    digestOf: (token) => `digest of ${token}`,
  };
}
