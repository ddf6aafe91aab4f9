import { expect, it } from "vitest";
import { CUT_OFF, get, kindsOf, NOT_MADE, shown, UNKNOWN, update } from "./told.ts";

const FORGETS = { allow: { mayForget: true, staleMs: 0 } };

it("passes what was changed and read in one order", () => {
  const calls = [
    // It offers a name, which a group that is there does not take.
    get([1, 2], {}, { value: "offered" }),
    update("n1", [2, 6]),
    // While it is changed, a read may show either, and the later one of two that overlap the earlier value.
    get([3, 5], { name: "n1" }),
    get([3, 5]),
    get([6, 7], { name: "n1" }),
    update("n2", [8, 12]),
    update("n3", [9, 11]),
    get([13, 14], { name: "n2" }),
  ];
  expect(kindsOf(calls)).toEqual([]);
});

it("passes a change of unknown outcome whether it was made or not", () => {
  expect(kindsOf([update("n1", [2, 3], UNKNOWN), get([4, 5])])).toEqual([]);
  expect(kindsOf([update("n1", [2, 3], UNKNOWN), get([4, 5], { name: "n1" })])).toEqual([]);
  // Nobody knows until when it may be made when not even the worker has told.
  const late = [update("n1", [2, 3], CUT_OFF), get([4, 5]), get([6, 7], { name: "n1" })];
  expect(kindsOf(late, { workersEnd: true })).toEqual([]);
});

it("finds an acknowledged change that is lost", () => {
  expect(kindsOf([update("n1", [2, 3]), get([4, 5])])).toEqual(["acknowledged is lost"]);
  expect(kindsOf([update("n1", [2, 3]), get([4, 5])], FORGETS)).toEqual(["acknowledged is lost"]);
});

it("finds it also when another change of unknown outcome is read in its place", () => {
  const calls = [update("n1", [2, 3], UNKNOWN), update("n2", [4, 5]), get([6, 7], { name: "n1" })];
  expect(kindsOf(calls)).toEqual(["acknowledged is lost"]);
  expect(kindsOf(calls, FORGETS)).toEqual(["acknowledged is lost"]);
});

it("finds a change that was made though it was said not to be", () => {
  expect(kindsOf([update("n1", [2, 3], NOT_MADE), get([4, 5], { name: "n1" })])).toEqual(["not made was made"]);
});

it("finds a change that was made after its call was told that it failed", () => {
  const calls = [update("n1", [2, 3], UNKNOWN), get([4, 5]), get([6, 7], { name: "n1" })];
  expect(kindsOf(calls)).toEqual(["no order"]);
});

it("finds reads that contradict each other", () => {
  const calls = [update("n1", [2, 9]), get([3, 4], { name: "n1" }), get([5, 6])];
  expect(kindsOf(calls)).toEqual(["no order"]);
});

it("finds that two changes took turns", () => {
  const calls = [
    update("n1", [2, 9]),
    update("n2", [2, 9]),
    get([10, 11], { name: "n1" }),
    get([12, 13], { name: "n2" }),
  ];
  expect(kindsOf(calls)).toEqual(["no order"]);
  expect(kindsOf(calls, FORGETS)).toEqual(["no order"]);
});

it("allows that what was not acknowledged was seen and is gone, where that is not promised", () => {
  const calls = [update("n1", [2, 9], UNKNOWN), get([3, 4], { name: "n1" }), get([10, 11])];
  expect(kindsOf(calls)).toEqual(["no order"]);
  expect(kindsOf(calls, FORGETS)).toEqual([]);
});

it("allows reads that are out of date as far as that is said, and not in the end", () => {
  const allow = { mayForget: false, staleMs: 5 };
  expect(kindsOf([update("n1", [2, 3]), get([7, 8])], { allow })).toEqual([]);
  expect(kindsOf([update("n1", [2, 3]), get([9, 10])], { allow })).toEqual(["acknowledged is lost"]);
  const final = get([7, 8], {}, { isFinal: true });
  expect(kindsOf([update("n1", [2, 3]), final], { allow })).toEqual(["acknowledged is lost"]);
});

it("finds values that nobody wrote, or wrote later", () => {
  expect(kindsOf([get([2, 3], { name: "other" })])).toEqual(["from nowhere"]);
  expect(kindsOf([get([2, 3], { name: "n1" }), update("n1", [4, 5])])).toEqual(["from nowhere"]);
});

it("finds half a change, and an answer to another one", () => {
  expect(kindsOf([update("n1", [2, 3]), get([4, 5], { name: "n1", mapped: "n0" })])).toEqual(["torn"]);
  expect(kindsOf([update("n1", [2, 3], shown({ name: "n0" }))])).toContain("torn");
});
