import { expect, it } from "vitest";
import type { StoredEvent } from "./audit.ts";
import type { Call } from "./call.ts";
import {
  CUT_OFF,
  call,
  created,
  get,
  kindsOf,
  NO_GROUP,
  NO_TOKEN,
  NOT_MADE,
  rotate,
  stored,
  UNKNOWN,
  update,
} from "./told.ts";

const event = (requestId: string, method: string, group = "a"): StoredEvent => ({ requestId, method, group });

const CREATION = event("c0", "GetUserGroup");

/** The kinds of what is wrong, with the creation of the group as `c0` and its event. */
function kinds(calls: readonly Call[], events: readonly StoredEvent[], creation: readonly StoredEvent[] = [CREATION]) {
  const environments = [stored({ events: [...creation, ...events] })];
  const all = [{ ...call("get", [0, 1], created.answer, { value: "n0" }), id: "c0" }, ...calls];
  return kindsOf(all, { stored: environments }).filter((kind) => kind === "audit");
}

const named = (one: Call, id: string): Call => ({ ...one, id });

it("passes events that are those of the changes", () => {
  const request = { requestId: "r" };
  const calls = [
    named(update("n1", [2, 3]), "c1"),
    named(get([4, 5], { name: "n1" }), "c2"),
    named(rotate([6, 7], "t1"), "c3"),
    // A retry whose first try was cut off, and made all the same.
    named(rotate([8, 9], CUT_OFF, request), "c4"),
    named(rotate([10, 11], "t2", request), "c5"),
    named(rotate([12, 13], NO_TOKEN), "c6"),
    named(update("n2", [14, 15], UNKNOWN), "c7"),
    named(update("n3", [16, 17], UNKNOWN), "c8"),
    named(update("n4", [18, 19], NO_GROUP), "c9"),
    named(get([20, 21], { name: "n2", token: "t2" }, { isFinal: true }), "c10"),
  ];
  const events = [
    event("c1", "UpdateUserGroup"),
    event("c3", "RotateUserGroupToken"),
    event("c4", "RotateUserGroupToken"),
    event("c7", "UpdateUserGroup"),
  ];
  expect(kinds(calls, events)).toEqual([]);
});

it.each<[string, readonly Call[], readonly StoredEvent[]]>([
  ["an acknowledged update without an event", [named(update("n1", [2, 3]), "c1")], []],
  ["an acknowledged rotation without an event", [named(rotate([2, 3], "t1"), "c1")], []],
  [
    "a rotation whose retries have an event each",
    [named(rotate([2, 3], "t1", { requestId: "r" }), "c1"), named(rotate([4, 5], "t1", { requestId: "r" }), "c2")],
    [event("c1", "RotateUserGroupToken"), event("c2", "RotateUserGroupToken")],
  ],
  [
    "a rotation whose retries have none",
    [named(rotate([2, 3], CUT_OFF, { requestId: "r" }), "c1"), named(rotate([4, 5], "t1", { requestId: "r" }), "c2")],
    [],
  ],
  [
    "two events of one change",
    [named(update("n1", [2, 3]), "c1")],
    [event("c1", "UpdateUserGroup"), event("c1", "UpdateUserGroup")],
  ],
  ["an event of no call", [], [event("c1", "UpdateUserGroup")]],
  ["an event of another method", [named(update("n1", [2, 3]), "c1")], [event("c1", "RotateUserGroupToken")]],
  ["an event of another group", [named(update("n1", [2, 3]), "c1")], [event("c1", "UpdateUserGroup", "b")]],
  [
    "an event of what was said not to be made",
    [named(update("n1", [2, 3], NOT_MADE), "c1")],
    [event("c1", "UpdateUserGroup")],
  ],
  ["an event of a refusal", [named(rotate([2, 3], NO_TOKEN), "c1")], [event("c1", "RotateUserGroupToken")]],
  ["an event of a Get that found the group", [named(get([2, 3]), "c1")], [event("c1", "GetUserGroup")]],
  [
    "an event whose change is not there in the end",
    [named(update("n1", [2, 3], UNKNOWN), "c1"), named(get([4, 5], {}, { isFinal: true }), "c2")],
    [event("c1", "UpdateUserGroup")],
  ],
  [
    "a change that is there in the end, without an event",
    [named(update("n1", [2, 3], UNKNOWN), "c1"), named(get([4, 5], { name: "n1" }, { isFinal: true }), "c2")],
    [],
  ],
])("finds %s", (_, calls, events) => {
  expect(kinds(calls, events)).toEqual(["audit"]);
});

it("finds a creation without an event", () => {
  expect(kinds([], [], [])).toEqual(["audit"]);
});
