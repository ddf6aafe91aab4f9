import { expect, it } from "vitest";
import { get, kindsOf, NO_TOKEN, NOT_MADE, resolve, rotate, UNKNOWN } from "./told.ts";

const FORGETS = { allow: { mayForget: true, staleMs: 0 } };

it("passes rotations, retries and viewers as they should be", () => {
  const calls = [
    rotate([2, 3], "t1", { token: "t0", requestId: "r1", graceMs: 10 }),
    rotate([4, 5], "t1", { token: "t0", requestId: "r1", graceMs: 10 }),
    rotate([4, 5], NO_TOKEN, { token: "t0" }),
    resolve("t0", [5, 6]),
    resolve("t1", [5, 6]),
    get([5, 6], { token: "t1" }),
    rotate([7, 8], UNKNOWN, { requestId: "r2" }),
    get([9, 10], { token: "t2" }),
    rotate([9, 10], "t2", { requestId: "r2" }),
    resolve("t0", [11, 12], NO_TOKEN),
    resolve("t2", [11, 12]),
  ];
  expect(kindsOf(calls)).toEqual([]);
});

it("finds two winners of one rotation", () => {
  const calls = [rotate([2, 5], "t1", { token: "t0" }), rotate([2, 5], "t2", { token: "t0" })];
  expect(kindsOf(calls)).toContain("two winners");
});

it("finds a request id that was answered twice", () => {
  const calls = [rotate([2, 3], "t1", { requestId: "r1" }), rotate([4, 5], "t2", { requestId: "r1" })];
  expect(kindsOf(calls)).toContain("two answers");
});

it("finds a retry that was answered with a token that was replaced", () => {
  const calls = [
    rotate([2, 3], "t1", { requestId: "r1" }),
    rotate([4, 5], "t2"),
    rotate([6, 7], "t1", { requestId: "r1" }),
  ];
  expect(kindsOf(calls)).toContain("acknowledged is lost");
});

it("finds two rotations that were answered with one token", () => {
  expect(kindsOf([rotate([2, 3], "t1"), rotate([4, 5], "t1")])).toContain("two answers");
});

it("finds a rotation that was made though it was said not to be", () => {
  const calls = [rotate([2, 3], NOT_MADE), get([4, 5], { token: "t1" })];
  expect(kindsOf(calls)).toEqual(["not made was made"]);
});

it("finds more rotations than can have been made", () => {
  const calls = [rotate([2, 3], UNKNOWN), get([4, 5], { token: "t1" }), get([6, 7], { token: "t2" })];
  expect(kindsOf(calls)).toEqual(["not made was made"]);
});

it("finds a rotation that was made anew by its retry, unless what was not acknowledged may be forgotten", () => {
  const calls = [
    rotate([2, 3], UNKNOWN, { requestId: "r1" }),
    get([4, 5], { token: "t1" }),
    rotate([6, 7], "t2", { requestId: "r1" }),
  ];
  expect(kindsOf(calls)).toEqual(["not made was made"]);
  expect(kindsOf(calls, FORGETS)).toEqual([]);
});

it("finds an acknowledged rotation that is lost", () => {
  const calls = [rotate([2, 3], "t1"), get([4, 5], { token: "t0" })];
  expect(kindsOf(calls)).toEqual(["acknowledged is lost"]);
  expect(kindsOf(calls, FORGETS)).toEqual(["acknowledged is lost"]);
});

it("finds a token that is taken after its end", () => {
  expect(kindsOf([rotate([2, 3], "t1"), resolve("t0", [4, 5])])).toEqual(["ended token"]);
  expect(kindsOf([rotate([2, 3], "t1", { graceMs: 10 }), resolve("t0", [12, 14])])).toEqual([]);
  expect(kindsOf([rotate([2, 3], "t1", { graceMs: 10 }), resolve("t0", [14, 15])])).toEqual(["ended token"]);
  // A grace is ended by the next rotation without one.
  const calls = [rotate([2, 3], "t1", { graceMs: 100 }), rotate([4, 5], "t2"), resolve("t0", [6, 7])];
  expect(kindsOf(calls)).toEqual(["ended token"]);
});

it("passes the token of either of two rotations at once", () => {
  expect(kindsOf([rotate([2, 9], "t1"), rotate([2, 9], "t2"), resolve("t1", [10, 11])])).toEqual([]);
});

it("allows a token after its end as far as reads may be out of date", () => {
  const calls = [rotate([2, 3], "t1"), resolve("t0", [7, 8])];
  expect(kindsOf(calls, { allow: { mayForget: false, staleMs: 5 } })).toEqual([]);
  expect(kindsOf(calls, { allow: { mayForget: false, staleMs: 3 } })).toEqual(["ended token"]);
});

it("finds a valid token that is refused, to viewers and to rotations", () => {
  const refused = ["token refused"];
  expect(kindsOf([resolve("t0", [4, 5], NO_TOKEN)])).toEqual(refused);
  expect(kindsOf([rotate([2, 3], "t1"), resolve("t1", [4, 5], NO_TOKEN)])).toEqual(refused);
  expect(kindsOf([rotate([2, 3], NOT_MADE), resolve("t0", [4, 5], NO_TOKEN)])).toEqual(refused);
  expect(kindsOf([resolve("t0", [2, 3], NO_TOKEN), rotate([4, 5], "t1")])).toEqual(refused);
  expect(kindsOf([rotate([2, 3], "t1"), rotate([4, 5], "t2"), resolve("t2", [6, 7], NO_TOKEN)])).toEqual(refused);
  // The answer of the first attempt is owed to the second.
  const retried = [
    rotate([2, 3], UNKNOWN, { token: "t0", requestId: "r1" }),
    rotate([4, 5], NO_TOKEN, { token: "t0", requestId: "r1" }),
  ];
  expect(kindsOf(retried)).toEqual(refused);
});

it("passes a refusal of a token that something may have ended", () => {
  expect(kindsOf([rotate([2, 3], UNKNOWN), resolve("t0", [4, 5], NO_TOKEN)])).toEqual([]);
  expect(kindsOf([rotate([2, 9], "t1"), resolve("t0", [4, 5], NO_TOKEN)])).toEqual([]);
});
