import { expect, it } from "vitest";
import type { Answer } from "./call.ts";
import {
  CUT_OFF,
  call,
  created,
  get,
  kindsOf,
  NO_GROUP,
  NO_TOKEN,
  NOT_MADE,
  resolve,
  shown,
  UNKNOWN,
  UNREAD,
  update,
} from "./told.ts";

it("passes what is refused as it should be", () => {
  const foreign = call("resolve", [2, 3], NO_TOKEN, { token: "t0", environment: "other" });
  const tooFew: Answer = { code: "unavailable", reason: "TOO_FEW_REPLICAS", outcome: "unknown" };
  expect(kindsOf([foreign, resolve("t0", [2, 3], UNREAD), update("n1", [4, 5], tooFew)])).toEqual([]);
});

it("finds another's group", () => {
  expect(kindsOf([get([2, 3], { id: "b" })])).toContain("another's group");
  expect(kindsOf([call("resolve", [2, 3], shown(), { token: "t0", environment: "other" })])).toContain(
    "another's group",
  );
});

it("finds a group that is missing", () => {
  expect(kindsOf([update("n1", [2, 3], NO_GROUP)])).toEqual(["group missing"]);
  expect(kindsOf([update("n1", [0, 3], NO_GROUP)])).toEqual([]);
});

it("finds a group that was created twice, or has two team ids, or that of another", () => {
  const allow = { mayForget: true, staleMs: 0 };
  expect(kindsOf([{ ...created, start: 2, end: 3 }])).toContain("created twice");
  expect(kindsOf([get([2, 3], { teamId: 2 })])).toEqual(["team id"]);
  const other = call("get", [2, 3], shown({ id: "b", token: "t9" }, true), { group: "one/b", value: "n0" });
  expect(kindsOf([other])).toEqual(["team id"]);
  expect(kindsOf([other], { allow })).toEqual(["team id"]);
  // A team id of a creation that nobody was told of may be given anew when it is forgotten.
  const read = call("get", [2, 3], shown({ id: "b", token: "t9" }), { group: "one/b" });
  const attempt = call("get", [1, 2], UNKNOWN, { group: "one/b", value: "n0" });
  expect(kindsOf([attempt, read])).toEqual(["team id"]);
  expect(kindsOf([attempt, read], { allow })).toEqual([]);
});

it("finds a failed change of which nothing is told, and a failed read of which something is", () => {
  expect(kindsOf([update("n1", [2, 3], UNREAD)])).toEqual(["not told"]);
  expect(kindsOf([resolve("t0", [2, 3], UNKNOWN)])).toEqual(["not told"]);
  expect(kindsOf([update("n1", [2, 3], { ...UNKNOWN, outcome: "perhaps" } as Answer)])).toEqual(["not told"]);
});

it("finds errors that no fault should lead to", () => {
  const broken: Answer = { code: "data_loss", reason: "RECORD_UNREADABLE", outcome: undefined };
  expect(kindsOf([get([2, 3]), { ...get([2, 3]), answer: broken }])).toEqual(["unforeseen"]);
  expect(kindsOf([{ ...get([2, 3], {}, { isFinal: true }), answer: NOT_MADE }])).toEqual(["unforeseen"]);
  expect(kindsOf([update("n1", [2, 3], CUT_OFF)])).toEqual(["unforeseen"]);
  expect(kindsOf([update("n1", [2, 3], CUT_OFF)], { workersEnd: true })).toEqual([]);
});

it("finds that workers disagree in the end", () => {
  const final = { isFinal: true };
  const change = update("n1", [2, 9], UNKNOWN);
  expect(kindsOf([change, get([10, 11], {}, final), get([10, 11], {}, final)])).toEqual([]);
  const calls = [change, get([10, 12], { name: "n1" }, final), get([10, 12], {}, final)];
  expect(kindsOf(calls)).toContain("disagreement");
});
