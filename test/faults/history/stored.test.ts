import { describe, expect, it } from "vitest";
import type { StoredEvent } from "./audit.ts";
import {
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
  recreated,
  remove,
  revoke,
  rotate,
  stored,
  type Told,
  UNKNOWN,
  update,
} from "./told.ts";

const FINAL = { isFinal: true };

describe("groups and indexes", () => {
  type Held = Parameters<typeof stored>[0];
  /** A token of another system that the group has, and what leads to it. */
  const foreign = { digest: "digest of f", has: { own: false, foreign: true } };
  const leading = { tokens: new Map([["digest of f", "a"]]) };
  const indexed = (...more: [string, string][]) => new Map([["digest of t0", "a"], ...more]);

  it.each<[string, Held, Told[]?]>([
    ["indexes that are whole", {}, [get({}, FINAL)]],
    ["a grace", { groups: [{ graceDigest: "digest of t9" }], tokens: indexed(["digest of t9", "a"]) }],
    ["a token of another system", { groups: [foreign], ...leading }],
  ])("passes %s", (_, held, calls = []) => {
    passes(calls, { stored: [stored(held)] });
  });

  it.each<[string, Held]>([
    ["a token that the index lacks", { tokens: new Map() }],
    ["a token of a group that is not there", { tokens: indexed(["digest of t9", "b"]) }],
    ["an id that the index lacks", { ids: [] }],
    ["a count behind the groups", { count: 0 }],
    ["a group without a token", { groups: [{ has: { own: false, foreign: false } }] }],
    ["a foreign token that nothing leads to", { groups: [foreign], tokens: new Map() }],
  ])("finds %s", (_, held) => {
    finds("index", [], { stored: [stored(held)] });
  });

  it("finds a group that is not there, or has another token, though it was shown in the end", () => {
    const nothing = stored({ groups: [], tokens: new Map(), ids: [] });
    const tokens = new Map([["digest of t1", "a"]]);
    const another = stored({ groups: [{ digest: "digest of t1" }], tokens });
    for (const environment of [nothing, another]) finds("index", [get({}, FINAL)], { stored: [environment] });
  });

  it("finds two groups of one team id, and a group that was said not to be made", () => {
    const groups = [{}, { id: "b", digest: "digest of t1" }];
    const held = { tokens: indexed(["digest of t1", "b"]), ids: ["a", "b"], count: 2 };
    const creation = call("get", NOT_MADE, { group: "one/b", value: "n1" });
    finds(["index", "not made was made"], [creation], { stored: [stored({ groups, ...held })] });
  });
});

describe("audit", () => {
  const CREATION = event("c0", "GetUserGroup");
  const REQUEST = { requestId: "r" };

  /** What is wrong with the events after that of the creation, which is `c0`, and their calls, `c1` and further. */
  const auditKinds = (calls: readonly Told[], events: readonly StoredEvent[], creation = [CREATION]) =>
    kindsOf(calls, { stored: [stored({ events: [...creation, ...events] })] }).filter((kind) => kind === "audit");

  it("passes events that are those of the changes", () => {
    const calls = [
      update("n1"),
      get({ name: "n1" }),
      rotate("t1"),
      // A retry whose first try was cut off, and made all the same.
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

  it("passes retries of one request that have an event for each life of their group", () => {
    const calls = [rotate("t1", REQUEST), remove(), recreated(), rotate("u1", REQUEST)];
    const methods = ["RotateUserGroupToken", "DeleteUserGroup", "GetUserGroup", "RotateUserGroupToken"];
    const events = methods.map((method, i) => event(`c${i + 1}`, method));
    expect(auditKinds(calls, events)).toEqual([]);
  });

  const updated = event("c1", "UpdateUserGroup");
  const rotated = event("c1", "RotateUserGroupToken");
  const retried = event("c2", "RotateUserGroupToken");
  it.each<[string, readonly Told[], readonly StoredEvent[]]>([
    ["an acknowledged update without an event", [update("n1")], []],
    ["a rotation whose retries have an event each", [rotate("t1", REQUEST), rotate("t1", REQUEST)], [rotated, retried]],
    ["two events of one change", [update("n1")], [updated, updated]],
    ["an event of no call", [], [updated]],
    ["an event of another method", [update("n1")], [rotated]],
    ["an event of what was said not to be made", [update("n1", NOT_MADE)], [updated]],
    ["an event whose change is not there in the end", [update("n1", UNKNOWN), get({}, FINAL)], [updated]],
    ["the name of a group that was deleted last", [remove(UNKNOWN), get({}, FINAL)], [event("c1", "DeleteUserGroup")]],
  ])("finds %s", (_, calls, events) => {
    expect(auditKinds(calls, events)).toEqual(["audit"]);
  });

  it("finds a creation without an event, and passes a deletion that was not made and has none", () => {
    expect(auditKinds([], [], [])).toEqual(["audit"]);
    expect(auditKinds([remove(UNKNOWN), get({}, FINAL)], [])).toEqual([]);
  });

  const all = [
    ["DeleteUserGroup", remove()],
    ["RevokeUserGroupTokens", revoke()],
    ["ImportUserGroups", imported("f")],
  ] as const;

  it.each(all)("passes %s with its event, and finds it without, twice, or of another method", (method, made) => {
    expect(auditKinds([made], [event("c1", method)])).toEqual([]);
    expect(auditKinds([made], [])).toEqual(["audit"]);
    expect(auditKinds([made], [event("c1", method), event("c1", method)])).toEqual(["audit"]);
    expect(auditKinds([made], [updated])).toEqual(["audit"]);
  });

  it.each(all)("finds an event of %s that was not made", (method, made) => {
    expect(auditKinds([{ ...made, answer: NOT_MADE }], [event("c1", method)])).toEqual(["audit"]);
    expect(auditKinds([{ ...made, answer: NO_GROUP }], [event("c1", method)])).toEqual(["audit"]);
    expect(auditKinds([{ ...made, answer: UNKNOWN }], [event("c1", method)])).toEqual([]);
    expect(auditKinds([{ ...made, answer: UNKNOWN }], [])).toEqual([]);
  });

  it("tells the events of one import of several groups apart", () => {
    const other = { ...imported("g"), group: "one/b", id: "c1" };
    const events = [event("c1", "ImportUserGroups"), event("c1", "ImportUserGroups", "b")];
    expect(auditKinds([imported("f"), other], events)).toEqual([]);
    expect(auditKinds([imported("f"), other], events.slice(1))).toEqual(["audit"]);
  });
});
