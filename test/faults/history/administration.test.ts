import { describe, expect, it } from "vitest";
import type { StoredEvent } from "./audit.ts";
import {
  CUT_OFF,
  created,
  DONE,
  get,
  imported,
  kindsOf,
  NO_GROUP,
  NO_TOKEN,
  NOT_MADE,
  recreated,
  remove,
  resolve,
  revoke,
  rotate,
  shown,
  stored,
  UNKNOWN,
  UNREAD,
  update,
} from "./told.ts";

const FORGETS = { allow: { mayForget: true, staleMs: 0 } };
const LOST = ["acknowledged is lost"];

/** The group after it was created anew. */
const anew = { teamId: 2, token: "u0", name: "m0" };

describe("deletions", () => {
  it("passes groups that come and go", () => {
    const calls = [
      resolve("t0", [2, 7], NO_TOKEN),
      remove([3, 5]),
      get([2, 4]),
      update("n1", [6, 7], NO_GROUP),
      remove([6, 7], NO_GROUP),
      recreated([8, 9]),
      resolve("t0", [10, 11], NO_TOKEN),
      resolve("u0", [10, 11], shown(anew)),
      get([10, 11], anew),
      remove([12, 13], UNKNOWN),
      get([14, 15], anew),
      remove([16, 17], UNKNOWN),
      update("n2", [18, 19], NO_GROUP),
      recreated([20, 21], { teamId: 3, token: "v0", name: "m1" }),
    ];
    expect(kindsOf(calls)).toEqual([]);
  });

  it("passes two at once of a group that was created anew between them, whatever was answered first", () => {
    const slow = get([1, 9]);
    expect(kindsOf([slow, remove([2, 3]), recreated([4, 5]), remove([4, 9]), get([4, 9], anew)])).toEqual([]);
  });

  it("finds one that is undone, whether the group was created anew or not", () => {
    expect(kindsOf([remove([2, 3]), get([4, 5])])).toContain(LOST[0]);
    expect(kindsOf([remove([2, 3]), get([4, 5])], FORGETS)).toEqual(LOST);
    expect(kindsOf([remove([2, 3]), update("n1", [4, 5])])).toEqual(LOST);
    expect(kindsOf([remove([2, 3]), rotate([4, 5], "t1")])).toEqual(LOST);
    expect(kindsOf([remove([2, 3], UNKNOWN), recreated([4, 5]), get([6, 7])])).toContain(LOST[0]);
  });

  it("finds a token that outlives it", () => {
    expect(kindsOf([remove([2, 3]), resolve("t0", [4, 5])])).toContain("ended token");
    const calls = [rotate([2, 3], "t1", { graceMs: 100 }), remove([4, 5]), resolve("t0", [6, 7], shown())];
    expect(kindsOf(calls)).toContain("ended token");
    // Whatever it shows.
    expect(kindsOf([remove([2, 3]), recreated([4, 5]), resolve("t0", [6, 7], shown(anew))])).toEqual(["ended token"]);
  });

  it("finds a group that has its token or its team id again", () => {
    const again = [remove([2, 3]), recreated([4, 5], { token: "t0" }), get([6, 7], { ...anew, token: "t0" })];
    expect(kindsOf(again)).toContain(LOST[0]);
    expect(kindsOf([remove([2, 3]), recreated([4, 5], { teamId: 1 })])).toContain("created twice");
  });

  it("finds one that was made though it was said not to be", () => {
    expect(kindsOf([remove([2, 3], NOT_MADE), recreated([4, 5])])).toEqual(["team id"]);
    expect(kindsOf([remove([2, 3], NOT_MADE), update("n1", [4, 5], NO_GROUP)])).toEqual(["group missing"]);
    expect(kindsOf([remove([2, 3], NOT_MADE), resolve("t0", [4, 5], NO_TOKEN)])).toEqual(["token refused"]);
  });

  it("finds a group that is missing though it was created anew since, or not deleted yet", () => {
    expect(kindsOf([remove([2, 3]), recreated([4, 5]), update("n1", [6, 7], NO_GROUP)])).toEqual(["group missing"]);
    expect(kindsOf([update("n1", [2, 3], NO_GROUP), remove([4, 5])])).toEqual(["group missing"]);
    expect(kindsOf([remove([4, 5], NO_GROUP)])).toEqual(["group missing"]);
  });

  it("passes a retry that does not find the group of its first try, and no other", () => {
    const request = { requestId: "r" };
    const made = revoke([2, 3], shown({ token: undefined }), request);
    const retried = [remove([4, 5]), recreated([6, 7]), revoke([8, 9], NO_GROUP, request)];
    expect(kindsOf([made, ...retried])).toEqual([]);
    expect(kindsOf(retried)).toEqual(["group missing"]);
  });

  it("finds lives without a deletion between them", () => {
    expect(kindsOf([remove([2, 3], UNKNOWN), get([4, 5]), recreated([6, 7])])).toEqual(["team id"]);
    expect(kindsOf([recreated([2, 3]), remove([4, 5])])).toEqual(["team id"]);
  });

  it("finds lives that take turns", () => {
    const first = shown({ name: "m0", token: undefined });
    const calls = [remove([2, 20], CUT_OFF), recreated([4, 5]), resolve("u0", [6, 7], first)];
    expect(kindsOf(calls, { workersEnd: true })).toEqual(LOST);
  });

  it("allows what reads show as far as they may be out of date", () => {
    const calls = [remove([2, 3]), get([7, 8])];
    expect(kindsOf(calls, { allow: { mayForget: false, staleMs: 5 } })).toEqual([]);
    expect(kindsOf(calls, { allow: { mayForget: false, staleMs: 3 } })).toEqual(LOST);
  });

  it("finds a failed one of which nothing is told", () => {
    expect(kindsOf([remove([2, 3], UNREAD)])).toEqual(["not told"]);
    expect(kindsOf([revoke([2, 3], UNREAD)])).toEqual(["not told"]);
    expect(kindsOf([imported("f", [2, 3], UNREAD)])).toEqual(["not told"]);
  });
});

describe("revocations", () => {
  it("passes what they do", () => {
    const request = { requestId: "r" };
    const calls = [
      revoke([2, 3]),
      resolve("t0", [2, 3]),
      resolve("t0", [4, 5], NO_TOKEN),
      get([4, 5], { token: "t1" }),
      revoke([6, 7], UNKNOWN, request),
      get([8, 9], { token: "t2" }),
      revoke([10, 11], shown({ token: undefined }), request),
      get([12, 13], { token: "t2" }),
      revoke([14, 15], UNKNOWN),
      resolve("t2", [16, 17]),
    ];
    expect(kindsOf(calls)).toEqual([]);
  });

  it("finds a former token that is taken or shown", () => {
    expect(kindsOf([revoke([2, 3]), resolve("t0", [4, 5])])).toEqual(["ended token"]);
    expect(kindsOf([revoke([2, 3]), get([4, 5])])).toEqual(LOST);
    expect(kindsOf([revoke([2, 3]), get([4, 5])], FORGETS)).toEqual(LOST);
    // One that is on its grace, too.
    const graced = [rotate([2, 3], "t1", { graceMs: 100 }), revoke([4, 5]), resolve("t0", [6, 7])];
    expect(kindsOf(graced)).toEqual(["ended token"]);
  });

  it("finds one that was made though it was said not to be, or twice", () => {
    expect(kindsOf([revoke([2, 3], NOT_MADE), get([4, 5], { token: "t1" })])).toEqual(["not made was made"]);
    expect(kindsOf([revoke([2, 3], NOT_MADE), resolve("t0", [4, 5], NO_TOKEN)])).toEqual(["token refused"]);
    const twice = [revoke([2, 3]), get([4, 5], { token: "t1" }), get([6, 7], { token: "t2" })];
    expect(kindsOf(twice)).toEqual(["not made was made"]);
  });
});

describe("imports", () => {
  const there = { name: "name of f", token: "f" };
  const viewed = shown({ ...there, token: undefined });

  it("passes what they do", () => {
    const calls = [
      imported("f", [2, 3]),
      resolve("t0", [4, 5], NO_TOKEN),
      resolve("f", [4, 5], viewed),
      get([4, 5], there),
      imported("g", [6, 7], NOT_MADE),
      resolve("g", [8, 9], NO_TOKEN),
      imported("h", [10, 11], UNKNOWN),
      resolve("f", [12, 13], NO_TOKEN),
      resolve("h", [12, 13], shown({ name: "name of h", token: undefined })),
      rotate([14, 15], shown({ name: "name of h", token: "t1" }), { token: "h" }),
      resolve("h", [16, 17], NO_TOKEN),
      remove([18, 19]),
      imported("i", [20, 21], { ...DONE, created: true } as typeof DONE),
      get([22, 23], { name: "name of i", token: "i", teamId: 2 }),
    ];
    expect(kindsOf(calls)).toEqual([]);
  });

  it("finds one that is lost, or its token", () => {
    expect(kindsOf([imported("f", [2, 3]), get([4, 5])])).toEqual(LOST);
    expect(kindsOf([imported("f", [2, 3]), get([4, 5], { ...there, name: "n0" })])).toEqual(LOST);
    expect(kindsOf([imported("f", [2, 3]), get([4, 5], { ...there, token: "t0" })])).toEqual(LOST);
    expect(kindsOf([imported("f", [2, 3]), resolve("f", [4, 5], NO_TOKEN)])).toEqual(["token refused"]);
  });

  it("finds the token that it replaced, and its own after it was replaced", () => {
    expect(kindsOf([imported("f", [2, 3]), resolve("t0", [4, 5], viewed)])).toEqual(["ended token"]);
    for (const ending of [revoke([4, 5], shown({ name: "name of f", token: undefined })), remove([4, 5])]) {
      const calls = [imported("f", [2, 3]), ending, resolve("f", [6, 7], viewed)];
      expect(kindsOf(calls)).toContain("ended token");
    }
    const rotated = rotate([4, 5], shown({ ...there, token: "t1" }), { token: "f" });
    expect(kindsOf([imported("f", [2, 3]), rotated, resolve("f", [6, 7], viewed)])).toEqual(["ended token"]);
    expect(kindsOf([imported("f", [2, 3]), imported("g", [4, 5]), get([6, 7], there)])).toEqual(LOST);
  });

  it("finds one that was made though it was said not to be", () => {
    const never = imported("f", [2, 3], NOT_MADE);
    expect(kindsOf([never, resolve("f", [4, 5])])).toEqual(["not made was made"]);
    expect(kindsOf([never, get([4, 5], { token: "f" })])).toEqual(["not made was made"]);
    expect(kindsOf([never, get([4, 5], { name: "name of f" })])).toEqual(["not made was made"]);
    expect(kindsOf([never, resolve("t0", [4, 5], NO_TOKEN)])).toEqual(["token refused"]);
  });

  it("finds a token that neither they nor deletions can have given", () => {
    for (const call of [imported("f", [2, 3], UNKNOWN), remove([2, 3], UNKNOWN)]) {
      expect(kindsOf([call, get([4, 5], { token: "t9" })])).toEqual(["not made was made"]);
    }
  });

  it("finds a token that leads to another group", () => {
    const calls = [imported("f", [2, 3]), resolve("f", [4, 5], shown({ ...there, id: "b" }))];
    expect(kindsOf(calls)).toContain("another's group");
  });
});

describe("what is stored after the administration of groups", () => {
  const foreign = { digest: "digest of f", has: { own: false, foreign: true } };
  const kinds = (more: Parameters<typeof stored>[0]) => kindsOf([], { stored: [stored(more)] });
  const leading = { tokens: new Map<string, string>(), foreign: new Map([["digest of f", "a"]]) };

  it("passes a token of another system", () => {
    expect(kinds({ groups: [foreign], partition: leading })).toEqual([]);
    // An entry that finds nothing may be left.
    expect(kinds({ partition: { foreign: new Map([["digest of g", "a"]]) } })).toEqual([]);
  });

  it.each<[string, Parameters<typeof stored>[0]]>([
    ["a group without a token", { groups: [{ has: { own: false, foreign: false } }] }],
    [
      "a group with two",
      {
        groups: [{ ...foreign, has: { own: true, foreign: true } }],
        partition: leading,
      },
    ],
    ["a token that nothing leads to", { groups: [foreign], partition: { ...leading, foreign: new Map() } }],
    [
      "a token that leads to another group",
      { groups: [foreign], partition: { ...leading, foreign: new Map([["digest of f", "b"]]) } },
    ],
    [
      "a token of ours that still leads to a group",
      { groups: [foreign], partition: { ...leading, tokens: new Map([["of f", "a"]]) } },
    ],
  ])("finds %s", (_, more) => {
    expect(kinds(more)).toEqual(["index"]);
  });
});

describe("the audit of the administration of groups", () => {
  const event = (requestId: string, method: string): StoredEvent => ({ requestId, method, group: "a" });
  const all = [
    ["DeleteUserGroup", remove([2, 3])],
    ["RevokeUserGroupTokens", revoke([2, 3])],
    ["ImportUserGroups", imported("f", [2, 3])],
  ] as const;

  /** The kinds of what is wrong, with the creation of the group as `c0` and its event. The calls are `c1` and further. */
  function kinds(calls: Parameters<typeof kindsOf>[0], events: readonly StoredEvent[]) {
    const named = [created, ...calls].map((call, i) => ({ id: `c${i}`, ...call }));
    const environments = [stored({ events: [event("c0", "GetUserGroup"), ...events] })];
    return kindsOf(named, { stored: environments }).filter((kind) => kind === "audit");
  }

  it.each(all)("passes %s with its event, and finds it without, twice, or of another method", (method, call) => {
    expect(kinds([call], [event("c1", method)])).toEqual([]);
    expect(kinds([call], [])).toEqual(["audit"]);
    expect(kinds([call], [event("c1", method), event("c1", method)])).toEqual(["audit"]);
    expect(kinds([call], [event("c1", "UpdateUserGroup")])).toEqual(["audit"]);
  });

  it.each(all)("finds an event of %s that was not made", (method, call) => {
    expect(kinds([{ ...call, answer: NOT_MADE }], [event("c1", method)])).toEqual(["audit"]);
    expect(kinds([{ ...call, answer: NO_GROUP }], [event("c1", method)])).toEqual(["audit"]);
    expect(kinds([{ ...call, answer: UNKNOWN }], [event("c1", method)])).toEqual([]);
    expect(kinds([{ ...call, answer: UNKNOWN }], [])).toEqual([]);
  });

  it("finds the name of a group that was deleted last", () => {
    const final = get([4, 5], {}, { isFinal: true });
    expect(kinds([remove([2, 3], UNKNOWN), final], [event("c1", "DeleteUserGroup")])).toEqual(["audit"]);
    expect(kinds([remove([2, 3], UNKNOWN), final], [])).toEqual([]);
  });

  it("tells the events of one import of several groups apart", () => {
    const other = { ...imported("g", [2, 3]), group: "one/b", id: "c1" };
    const both = [event("c1", "ImportUserGroups"), { ...event("c1", "ImportUserGroups"), group: "b" }];
    expect(kinds([imported("f", [2, 3]), other], both)).toEqual([]);
    expect(kinds([imported("f", [2, 3]), other], both.slice(1))).toEqual(["audit"]);
  });
});
