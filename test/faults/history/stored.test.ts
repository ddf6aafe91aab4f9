import { describe, expect, it } from "vitest";
import type { StoredEvent } from "./audit.ts";
import {
  type CallAt,
  CUT_OFF,
  call,
  event,
  finds,
  get,
  imported,
  kindsOf,
  NO_GROUP,
  NO_TOKEN,
  NOT_MADE,
  passes,
  recreate,
  remove,
  revoke,
  rotate,
  stored,
  UNKNOWN,
  update,
} from "./histories.ts";

const FINAL = { isFinal: true };

describe("the checker of stored groups and indexes", () => {
  type Held = Parameters<typeof stored>[0];
  /** The group `a` with a token that this service has not issued. */
  const foreign = { digest: "digest of f", has: { own: false, foreign: true } };
  const leading = { tokens: new Map([["digest of f", "a"]]) };
  const both = { own: true, foreign: true };
  const indexed = (...more: [string, string][]) => new Map([["digest of t0", "a"], ...more]);

  it.each<[string, Held, CallAt[]?]>([
    ["complete indexes", {}, [get({}, FINAL)]],
    [
      "a group whose old token is in its grace period",
      { groups: [{ graceDigest: "digest of t9" }], tokens: indexed(["digest of t9", "a"]) },
    ],
    ["a foreign token", { groups: [foreign], ...leading }],
  ])("passes %s", (_, held, calls = []) => {
    passes(calls, { stored: [stored(held)] });
  });

  it.each<[string, Held]>([
    ["a token without an index entry", { tokens: new Map() }],
    ["an old token in the index", { tokens: indexed(["digest of t9", "a"]) }],
    ["an index entry for a group that does not exist", { tokens: indexed(["digest of t9", "b"]) }],
    ["a group whose id is missing from the list", { ids: [] }],
    ["an id in the list without a group", { ids: ["a", "b"] }],
    ["a counter lower than the number of groups", { count: 0 }],
    ["a group without a token", { groups: [{ has: { own: false, foreign: false } }] }],
    ["a group with two tokens", { groups: [{ ...foreign, has: both }], ...leading }],
    ["a foreign token without an index entry", { groups: [foreign], tokens: new Map() }],
    ["a foreign token indexed for another group", { groups: [foreign], tokens: new Map([["digest of f", "b"]]) }],
  ])("finds %s", (_, held) => {
    finds("index", [], { stored: [stored(held)] });
  });

  it("finds a group that is missing, and a group whose token differs from the last answer", () => {
    const nothing = stored({ groups: [], tokens: new Map(), ids: [] });
    const tokens = new Map([["digest of t1", "a"]]);
    const another = stored({ groups: [{ digest: "digest of t1" }], tokens });
    for (const environment of [nothing, another]) finds("index", [get({}, FINAL)], { stored: [environment] });
  });

  it("finds two groups with one team id, and a group whose creation reported `not_made`", () => {
    const groups = [{}, { id: "b", digest: "digest of t1" }];
    const held = { tokens: indexed(["digest of t1", "b"]), ids: ["a", "b"], count: 2 };
    const creation = call("get", NOT_MADE, { group: "one/b", value: "n1" });
    finds(["index", "refused change was made"], [creation], { stored: [stored({ groups, ...held })] });
  });
});

describe("the checker of audit events", () => {
  const CREATION = event("c0", "GetUserGroup");
  const REQUEST = { requestId: "r" };

  /** Checks events and calls after the creation `c0`, and returns the violations. */
  const auditKinds = (calls: readonly CallAt[], events: readonly StoredEvent[], creation = [CREATION]) =>
    kindsOf(calls, { stored: [stored({ events: [...creation, ...events] })] }).filter((kind) => kind === "audit");

  it("accepts one event for each change", () => {
    const calls = [
      update("n1"),
      get({ name: "n1" }),
      rotate("t1"),
      // The connection breaks during the first attempt, but the change takes effect. Then the retry succeeds.
      rotate(CUT_OFF, REQUEST),
      rotate("t2", REQUEST),
      rotate(NO_TOKEN),
      update("n2", UNKNOWN),
      update("n3", UNKNOWN),
      update("n4", NO_GROUP),
      get({ name: "n2", token: "t2" }, FINAL),
    ];
    const events = [
      event("c1", "UpdateUserGroup"),
      event("c3", "RotateUserGroupToken"),
      event("c4", "RotateUserGroupToken"),
      event("c7", "UpdateUserGroup"),
    ];
    expect(auditKinds(calls, events)).toEqual([]);
  });

  it("accepts a second event for a retry if the group was deleted and created again in between", () => {
    const calls = [rotate("t1", REQUEST), remove(), recreate(), rotate("u1", REQUEST)];
    const methods = ["RotateUserGroupToken", "DeleteUserGroup", "GetUserGroup", "RotateUserGroupToken"];
    const events = methods.map((method, i) => event(`c${i + 1}`, method));
    expect(auditKinds(calls, events)).toEqual([]);
  });

  const updated = event("c1", "UpdateUserGroup");
  const rotated = event("c1", "RotateUserGroupToken");
  const retried = event("c2", "RotateUserGroupToken");
  it.each<[string, readonly CallAt[], readonly StoredEvent[]]>([
    ["an acknowledged update without an event", [update("n1")], []],
    ["an acknowledged rotation without an event", [rotate("t1")], []],
    ["a rotation with an event for each retry", [rotate("t1", REQUEST), rotate("t1", REQUEST)], [rotated, retried]],
    ["a rotation with no event for any retry", [rotate(CUT_OFF, REQUEST), rotate("t1", REQUEST)], []],
    ["two events for one change", [update("n1")], [updated, updated]],
    ["an event that belongs to no call", [], [updated]],
    ["an event whose method differs from the method of its call", [update("n1")], [rotated]],
    ["an event whose group differs from the group of its call", [update("n1")], [event("c1", "UpdateUserGroup", "b")]],
    ["an event for a change that reported `not_made`", [update("n1", NOT_MADE)], [updated]],
    ["an event for a refused rotation", [rotate(NO_TOKEN)], [rotated]],
    ["an event for a Get that created no group", [get()], [event("c1", "GetUserGroup")]],
    ["an event whose change is missing from the last read", [update("n1", UNKNOWN), get({}, FINAL)], [updated]],
    ["a change that has no event but is in the last read", [update("n1", UNKNOWN), get({ name: "n1" }, FINAL)], []],
    [
      "an event of a deletion although the last read shows the group",
      [remove(UNKNOWN), get({}, FINAL)],
      [event("c1", "DeleteUserGroup")],
    ],
  ])("finds %s", (_, calls, events) => {
    expect(auditKinds(calls, events)).toEqual(["audit"]);
  });

  it("finds a creation without an event, and accepts a deletion that has neither an effect nor an event", () => {
    expect(auditKinds([], [], [])).toEqual(["audit"]);
    expect(auditKinds([remove(UNKNOWN), get({}, FINAL)], [])).toEqual([]);
  });

  const all = [
    ["DeleteUserGroup", remove()],
    ["RevokeUserGroupTokens", revoke()],
    ["ImportUserGroups", imported("f")],
  ] as const;

  it.each(all)("accepts a successful %s only with exactly one event of its method", (method, made) => {
    expect(auditKinds([made], [event("c1", method)])).toEqual([]);
    expect(auditKinds([made], [])).toEqual(["audit"]);
    expect(auditKinds([made], [event("c1", method), event("c1", method)])).toEqual(["audit"]);
    expect(auditKinds([made], [updated])).toEqual(["audit"]);
  });

  it.each(all)("accepts no event for a refused %s, and at most one event if the outcome is unknown", (method, made) => {
    expect(auditKinds([{ ...made, answer: NOT_MADE }], [event("c1", method)])).toEqual(["audit"]);
    expect(auditKinds([{ ...made, answer: NO_GROUP }], [event("c1", method)])).toEqual(["audit"]);
    expect(auditKinds([{ ...made, answer: UNKNOWN }], [event("c1", method)])).toEqual([]);
    expect(auditKinds([{ ...made, answer: UNKNOWN }], [])).toEqual([]);
  });

  it("requires one event per group for an import of several groups", () => {
    const other = { ...imported("g"), group: "one/b", id: "c1" };
    const events = [event("c1", "ImportUserGroups"), event("c1", "ImportUserGroups", "b")];
    expect(auditKinds([imported("f"), other], events)).toEqual([]);
    expect(auditKinds([imported("f"), other], events.slice(1))).toEqual(["audit"]);
  });
});
