import { describe, expect, it } from "vitest";
import type { Answer } from "./call.ts";
import type { History } from "./check.ts";
import {
  at,
  type CallAt,
  CUT_OFF,
  call,
  created,
  DONE,
  get,
  imported,
  kindsOf,
  NO_GROUP,
  NO_TOKEN,
  NOT_MADE,
  recreate,
  remove,
  resolve,
  resume,
  revoke,
  rotate,
  SUSPENDED,
  shown,
  suspend,
  UNKNOWN,
  UNREAD,
  update,
} from "./histories.ts";
import { checkOrder } from "./order.ts";
import { STRICT } from "./violation.ts";

const FORGETS = { allow: { mayForget: true, staleMs: 0 } };
const lags = (staleMs: number) => ({ allow: { mayForget: false, staleMs } });
const CUTS_OFF = { workersEnd: true };
const FINAL = { isFinal: true };
const REQUEST = { requestId: "r" };

/** The group `a` after it was deleted and created again. */
const recreated = { teamId: 2, token: "u0", name: "m0" };
/** The group `a` after the import of the token `f`. */
const there = { name: "name of f", token: "f" };
const viewed = (name: string) => shown({ name, token: undefined });
const dark = { token: undefined, isSuspended: true };
const lit = { token: undefined, isSuspended: false };
const foreign = { token: "t0", environment: "other" };
const revoked = viewed("n0");
const tooFew: Answer = { code: "unavailable", reason: "TOO_FEW_REPLICAS", outcome: "unknown" };
const other = (answer: Answer) => call("get", answer, { group: "one/b", value: "n0" });
const shownB = { id: "b", token: "t9" };
const final = (name: string) => at([10, 12], get({ name }, FINAL));

const many = (answer: (seen: { name: string }) => Answer) =>
  Array.from({ length: 12 }, (_, n) => at([1, 99], update(`n ${n}`, answer({ name: `n ${n}` }))));

type Case = [what: string, calls: readonly CallAt[], more?: Partial<History>];

describe("the history checker accepts", () => {
  it.each<Case>([
    [
      "changes of names, and reads that show the changes in the same order",
      [
        // If the group exists, GetUserGroup ignores the name in the request.
        at([1, 2], get({}, { value: "offered" })),
        at([2, 6], update("n1")),
        // During a change, a read may show either value. Two overlapping reads may show the values in any order.
        at([3, 5], get({ name: "n1" })),
        at([3, 5], get()),
        at([6, 7], get({ name: "n1" })),
        at([8, 12], update("n2")),
        at([9, 11], update("n3")),
        at([13, 14], get({ name: "n2" })),
      ],
    ],
    [
      "concurrent changes, in the order in which reads show them",
      [...many(shown), ...[7, 2, 5, 0].map((n) => get({ name: `n ${n}` }))],
    ],
    ["a change with an unknown outcome that was not made", [update("n1", UNKNOWN), get()]],
    ["a change with an unknown outcome that was made", [update("n1", UNKNOWN), get({ name: "n1" })]],
    [
      "a change that takes effect after its worker was killed",
      [update("n1", CUT_OFF), get(), get({ name: "n1" })],
      CUTS_OFF,
    ],
    [
      "an unacknowledged change, which a read has returned before a failover loses the change",
      [at([2, 9], update("n1", UNKNOWN)), at([3, 4], get({ name: "n1" })), at([10, 11], get())],
      FORGETS,
    ],
    [
      "a lost rotation whose retry sets another token",
      [rotate(UNKNOWN, REQUEST), get({ token: "t1" }), rotate("t2", REQUEST)],
      FORGETS,
    ],
    ["a stale read", [update("n1"), at([7, 8], get())], lags(5)],
    ["a stale token", [rotate("t1"), at([7, 8], resolve("t0"))], lags(5)],
    ["a stale group", [remove(), at([7, 8], get())], lags(5)],
    [
      "correct answers to rotations, retries and viewers",
      [
        rotate("t1", { token: "t0", requestId: "r1", graceMs: 10 }),
        rotate("t1", { token: "t0", requestId: "r1", graceMs: 10 }),
        at([4, 5], rotate(NO_TOKEN, { token: "t0" })),
        at([5, 6], resolve("t0")),
        at([5, 6], resolve("t1")),
        at([5, 6], get({ token: "t1" })),
        at([7, 8], rotate(UNKNOWN, { requestId: "r2" })),
        at([9, 10], get({ token: "t2" })),
        at([10.1, 10.9], rotate("t2", { requestId: "r2" })),
        at([11, 12], resolve("t0", NO_TOKEN)),
        at([11, 12], resolve("t2")),
      ],
    ],
    [
      "two concurrent rotations in either order",
      [at([2, 9], rotate("t1")), at([2, 9], rotate("t2")), at([10, 11], resolve("t1"))],
    ],
    ["an old token that is accepted in its grace period", [rotate("t1", { graceMs: 10 }), at([12, 14], resolve("t0"))]],
    [
      "a refused token that a call with an unknown outcome may have revoked",
      [rotate(UNKNOWN), resolve("t0", NO_TOKEN)],
    ],
    ["a token refused during its rotation", [at([2, 9], rotate("t1")), at([4, 5], resolve("t0", NO_TOKEN))]],
    [
      "correct refusals",
      [
        call("resolve", NO_TOKEN, foreign),
        at([2, 3], resolve("t0", UNREAD)),
        at([3, 4], resolve("t0", NOT_MADE)),
        update("n1", tooFew),
      ],
    ],
    ["a group that is not found while it is created", [at([0, 3], update("n1", NO_GROUP))]],
    [
      "a team id that is reused because the creation of its first group was never acknowledged",
      [at([1, 2], other(UNKNOWN)), at([2, 3], other(shown(shownB)))],
      FORGETS,
    ],
    ["a call that is cut off because its worker was killed", [update("n1", CUT_OFF)], CUTS_OFF],
    ["workers that agree at the end", [at([2, 9], update("n1", UNKNOWN)), final("n0"), final("n0")]],
    [
      "a group that is deleted and created several times",
      [
        at([2, 7], resolve("t0", NO_TOKEN)),
        at([3, 5], remove()),
        at([2, 4], get()),
        at([6, 7], update("n1", NO_GROUP)),
        at([6, 7], remove(NO_GROUP)),
        at([8, 9], recreate()),
        at([10, 11], resolve("t0", NO_TOKEN)),
        at([10, 11], resolve("u0", shown(recreated))),
        at([10, 11], get(recreated)),
        at([12, 13], remove(UNKNOWN)),
        at([14, 15], get(recreated)),
        at([16, 17], remove(UNKNOWN)),
        at([18, 19], update("n2", NO_GROUP)),
        at([20, 21], recreate({ teamId: 3, token: "v0", name: "m1" })),
      ],
    ],
    [
      "two deletions with a creation between them, and reads of the old and the new group",
      [
        at([1, 9], get()),
        at([2, 3], remove()),
        at([4, 5], recreate()),
        at([4, 9], remove()),
        at([4, 9], get(recreated)),
      ],
    ],
    [
      "a retry that fails because a new group has the id of the deleted group",
      [
        at([2, 3], revoke(revoked, REQUEST)),
        at([4, 5], remove()),
        at([6, 7], recreate()),
        at([8, 9], revoke(NO_GROUP, REQUEST)),
      ],
    ],
    [
      "a retry that fails because its group was deleted",
      [rotate("t1", { ...REQUEST, token: "t0" }), remove(), rotate(NO_TOKEN, { ...REQUEST, token: "t0" })],
    ],
    [
      "revocations",
      [
        at([2, 3], revoke()),
        at([2, 3], resolve("t0")),
        at([4, 5], resolve("t0", NO_TOKEN)),
        at([4, 5], get({ token: "t1" })),
        at([6, 7], revoke(UNKNOWN, REQUEST)),
        at([8, 9], get({ token: "t2" })),
        at([10, 11], revoke(revoked, REQUEST)),
        at([12, 13], get({ token: "t2" })),
        at([14, 15], revoke(UNKNOWN)),
        at([16, 17], resolve("t2")),
      ],
    ],
    [
      "suspensions",
      [
        at([2, 3], suspend()),
        at([4, 5], resolve("t0", SUSPENDED)),
        at([4, 5], get(dark)),
        at([6, 7], update("n1", shown({ name: "n1", ...dark }))),
        at([8, 9], rotate(shown({ name: "n1", ...dark }), { token: "t0" })),
        at([10, 11], resolve("t0", NO_TOKEN)),
        at([12, 13], resolve("t1", SUSPENDED)),
        at([14, 15], imported("f")),
        at([16, 17], resolve("f", SUSPENDED)),
        at([18, 30], resume(UNKNOWN)),
        at([19, 20], resolve("f", SUSPENDED)),
        at([21, 22], resolve("f", viewed("name of f"))),
        at([31, 40], suspend(UNKNOWN)),
        at([32, 33], resolve("f", viewed("name of f"))),
        at([34, 35], resolve("f", SUSPENDED)),
        at([41, 42], resume(shown({ ...lit, name: "name of f" }))),
        at([43, 44], resume(shown({ ...lit, name: "name of f" }))),
        at([45, 46], get({ ...there, isSuspended: false })),
      ],
    ],
    [
      "imports",
      [
        imported("f"),
        at([4, 5], resolve("t0", NO_TOKEN)),
        at([4, 5], resolve("f", viewed("name of f"))),
        at([4, 5], get(there)),
        at([6, 7], imported("g", NOT_MADE)),
        at([8, 9], resolve("g", NO_TOKEN)),
        at([10, 11], imported("h", UNKNOWN)),
        at([12, 13], resolve("f", NO_TOKEN)),
        at([12, 13], resolve("h", viewed("name of h"))),
        at([14, 15], rotate(shown({ name: "name of h", token: "t1" }), { token: "h" })),
        at([16, 17], resolve("h", NO_TOKEN)),
        at([18, 19], remove()),
        at([20, 21], imported("i", { ...DONE, created: true } as Answer)),
        at([22, 23], get({ name: "name of i", token: "i", teamId: 2 })),
      ],
    ],
  ])("%s", (_what, calls, more) => {
    expect(kindsOf(calls, more)).toEqual([]);
  });
});

describe("the history checker finds no valid order in a history with", () => {
  const turns = [
    ...[at([2, 9], update("n1")), at([2, 9], update("n2"))],
    ...[at([10, 11], get({ name: "n1" })), at([12, 13], get({ name: "n2" }))],
  ];

  it.each<Case>([
    ["a lost acknowledged change", [update("n1"), get()], FORGETS],
    ["a lost acknowledged suspension", [suspend(), resolve("t0")], FORGETS],
    ["a suspended group that a viewer can resolve", [suspend(), resolve("t0")]],
    ["a suspended group that an answer shows as active", [suspend(), get({ isSuspended: false })]],
    ["a suspended group that a viewer can resolve with its new token", [suspend(), rotate(shown(dark)), resolve("t1")]],
    [
      "a suspended group that a viewer can resolve after an update",
      [suspend(), update("n1"), resolve("t0", viewed("n1"))],
    ],
    [
      "a suspended group that a viewer can resolve after an import",
      [suspend(), imported("f"), resolve("f", viewed("name of f"))],
    ],
    [
      "a suspension that has effect although its call reported `not_made`",
      [suspend(NOT_MADE), resolve("t0", SUSPENDED)],
    ],
    ["a suspension that no call requested", [resolve("t0", SUSPENDED)]],
    ["a resumed group that a viewer cannot resolve", [suspend(), resume(), resolve("t0", SUSPENDED)]],
    [
      "a revoked token whose refusal reveals that the group is suspended",
      [suspend(), rotate(shown(dark)), resolve("t0", SUSPENDED)],
    ],
    ["a suspension that outlives its group", [suspend(), remove(), recreate(), resolve("u0", SUSPENDED)]],
    [
      "an acknowledged change that an older change replaces",
      [update("n1", UNKNOWN), update("n2"), get({ name: "n1" })],
      FORGETS,
    ],
    [
      "an acknowledged change that is lost together with the change before it",
      [update("n1", UNKNOWN), get({ name: "n1" }), update("n2"), get()],
      FORGETS,
    ],
    [
      "many concurrent changes, and reads that contradict each other",
      [...many(() => UNKNOWN), get({ name: "n 1" }), get({ name: "n 2" }), get({ name: "n 1" })],
    ],
    ["a change that has effect although its call reported `not_made`", [update("n1", NOT_MADE), get({ name: "n1" })]],
    ["a change that takes effect only after its call has failed", [update("n1", UNKNOWN), get(), get({ name: "n1" })]],
    ["reads that show two values although no change is in flight", turns, FORGETS],
    [
      "a lost change that a read has shown",
      [at([2, 9], update("n1", UNKNOWN)), at([3, 4], get({ name: "n1" })), at([10, 11], get())],
    ],
    ["a read that is more stale than allowed", [update("n1"), at([9, 10], get())], lags(5)],
    ["a stale read after the load", [update("n1"), at([7, 8], get({}, FINAL))], lags(5)],
    ["a value that no call wrote", [get({ name: "other" })]],
    ["a value read before it was written", [get({ name: "n1" }), update("n1")]],
    [
      "two successful rotations that presented the same token",
      [at([2, 5], rotate("t1", { token: "t0" })), at([2, 5], rotate("t2", { token: "t0" }))],
    ],
    ["two new tokens for one request id", [rotate("t1", REQUEST), rotate("t2", REQUEST)]],
    ["two rotations that set the same token", [rotate("t1"), rotate("t1")]],
    ["a rotation that sets an old token again", [rotate("t1"), rotate("t2"), rotate("t0")]],
    ["more new tokens than rotations", [rotate(UNKNOWN), get({ token: "t1" }), get({ token: "t2" })]],
    ["a rotation that returns the token of another rotation", [rotate(UNKNOWN), get({ token: "t1" }), rotate("t1")]],
    ["a retry that rotates a second time", [rotate(UNKNOWN, REQUEST), get({ token: "t1" }), rotate("t2", REQUEST)]],
    ["a token accepted after its revocation", [rotate("t1"), resolve("t0")]],
    ["a token accepted after its grace period", [rotate("t1", { graceMs: 10 }), at([14, 15], resolve("t0"))]],
    [
      "a token that is accepted although the next rotation has ended the token's grace period",
      [rotate("t1", { graceMs: 100 }), rotate("t2"), resolve("t0")],
    ],
    ["a valid token that is refused", [at([4, 5], resolve("t0", NO_TOKEN))]],
    [
      "a refused retry of a successful rotation",
      [rotate(UNKNOWN, { ...REQUEST, token: "t0" }), rotate(NO_TOKEN, { ...REQUEST, token: "t0" })],
    ],
    ["a missing group", [update("n1", NO_GROUP)]],
    ["a group created twice", [at([2, 3], created)]],
    ["a group whose team id changes", [get({ teamId: 2 })]],
    ["a deletion that is undone", [remove(), get()], FORGETS],
    ["a group that no call created", [remove(), get(recreated)]],
    ["an update after a deletion", [remove(), update("n1")]],
    ["a token that an update cannot have set", [update("n1", UNKNOWN), get({ name: "n1", token: "t9" })]],
    ["the old state of a group that was deleted and created again", [remove(UNKNOWN), recreate(), get()]],
    ["a token that outlives its group", [remove(), resolve("t0")]],
    ["a grace period that outlives its group", [rotate("t1", { graceMs: 100 }), remove(), resolve("t0", shown())]],
    ["a reused token", [remove(), recreate({ token: "t0" })]],
    ["a reused team id", [remove(), recreate({ teamId: 1 })]],
    ["a group that is not found before its deletion", [update("n1", NO_GROUP), remove()]],
    [
      "a first revocation that does not find an existing group",
      [at([4, 5], remove()), at([6, 7], recreate()), at([8, 9], revoke(NO_GROUP, REQUEST))],
    ],
    [
      "answers that alternate between a deleted group and its successor",
      [at([2, 20], remove(CUT_OFF)), recreate(), resolve("u0", shown({ name: "m0", token: undefined })), get()],
      CUTS_OFF,
    ],
    ["an old token that is accepted after a revocation", [revoke(), resolve("t0")]],
    [
      "a token that is accepted although a revocation has ended the token's grace period",
      [rotate("t1", { graceMs: 100 }), revoke(), resolve("t0")],
    ],
    ["an import whose name is lost", [imported("f"), get({ ...there, name: "n0" })]],
    ["an imported token that is refused", [imported("f"), resolve("f", NO_TOKEN)]],
    ["a token that is accepted after an import has replaced it", [imported("f"), resolve("t0", viewed("name of f"))]],
    [
      "a token that is accepted although an import has ended the token's grace period",
      [rotate("t1", { graceMs: 100 }), imported("f"), resolve("t0", viewed("name of f"))],
    ],
    ["an accepted token of an import that reported `not_made`", [imported("f", NOT_MADE), resolve("f")]],
    ["a token that no call set", [imported("f", UNKNOWN), get({ token: "t9" })]],
    [
      "a failed rotation that appears to have set a foreign token",
      [imported("f", NOT_MADE), rotate(UNKNOWN), get({ token: "f" })],
    ],
  ])("%s", (_what, calls, more) => {
    expect(kindsOf(calls, more)).toEqual(["no order"]);
  });
});

describe("the history checker finds", () => {
  const broken: Answer = { code: "data_loss", reason: "RECORD_UNREADABLE", outcome: undefined };

  it.each<[...Required<Case>, kinds: string[]]>([
    ["half a change", [update("n1"), get({ name: "n1", mapped: "n0" })], {}, ["torn"]],
    ["a change whose answer shows another name", [update("n1", shown({ name: "n0" }))], {}, ["torn", "no order"]],
    ["an answer with another group", [get({ id: "b" })], {}, ["another's group"]],
    ["an answer with a group of another environment", [call("resolve", shown(), foreign)], {}, ["another's group"]],
    ["a new group with the team id of another group", [other(shown(shownB, true))], FORGETS, ["team id"]],
    [
      "two groups with the same team id",
      [at([1, 2], other(UNKNOWN)), at([2, 3], other(shown(shownB)))],
      {},
      ["team id"],
    ],
    ...[update("n1", UNREAD), remove(UNREAD), revoke(UNREAD), imported("f", UNREAD)].map(
      (change): [...Required<Case>, string[]] => [
        `a failed ${change.method} without an outcome`,
        [change],
        {},
        ["wrong outcome"],
      ],
    ),
    ["a failed read that reports an unknown outcome", [resolve("t0", UNKNOWN)], {}, ["wrong outcome"]],
    [
      "an outcome that does not exist",
      [update("n1", { ...UNKNOWN, outcome: "perhaps" } as Answer)],
      {},
      ["wrong outcome"],
    ],
    ["an error that no fault causes", [get(), call("get", broken)], {}, ["unexpected"]],
    ["an error after the load", [call("get", NOT_MADE, FINAL)], {}, ["unexpected"]],
    ["a call that is cut off although no worker ended", [update("n1", CUT_OFF)], {}, ["unexpected"]],
    [
      "workers that disagree at the end",
      [at([2, 9], update("n1", UNKNOWN)), final("n1"), final("n0")],
      FORGETS,
      ["disagreement"],
    ],
  ])("%s", (_what, calls, more, kinds) => {
    expect(kindsOf(calls, more)).toEqual(kinds);
  });
});

it("the history checker describes the calls that it cannot explain, but shows no full token", () => {
  const [token, next] = ["ugt_0123456789", "ugt_9876543210"];
  const calls = [created, at([2, 3], rotate(token)), at([4, 5], rotate(next, { token })), at([6, 7], resolve(token))];
  expect(checkOrder(calls, STRICT)).toEqual([
    {
      kind: "no order",
      text: "one/a: no order of its calls explains resolve of ugt_..6789 at 6.0 to 7.0 ms: n0, unknown, 1, if the group has the name n0, the token ugt_..3210 and the team id 1",
    },
  ]);
});
