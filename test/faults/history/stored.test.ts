import { expect, it } from "vitest";
import { call, get, kindsOf, NOT_MADE, stored } from "./told.ts";

const kinds = (more: Parameters<typeof stored>[0], calls: Parameters<typeof kindsOf>[0] = []) =>
  kindsOf(calls, { stored: [stored(more)] });

it("passes indexes that are whole", () => {
  expect(kinds({}, [get([2, 3], {}, { isFinal: true })])).toEqual([]);
  const graces = new Map([["digest of t9", "a"]]);
  expect(kinds({ groups: [{ graceDigest: "digest of t9" }], partition: { graces } })).toEqual([]);
});

it.each<[string, Parameters<typeof stored>[0]]>([
  ["a token that the index lacks", { partition: { tokens: new Map() } }],
  [
    "an old token in the index",
    {
      partition: {
        tokens: new Map([
          ["of t0", "a"],
          ["of t9", "a"],
        ]),
      },
    },
  ],
  [
    "a token of a group that is not there",
    {
      partition: {
        tokens: new Map([
          ["of t0", "a"],
          ["of t9", "b"],
        ]),
      },
    },
  ],
  ["an id that the index lacks", { partition: { ids: [] } }],
  ["the id of a group that is not there", { partition: { ids: ["a", "b"] } }],
  ["a grace that the record does not name", { partition: { graces: new Map([["digest of t9", "a"]]) } }],
  ["a count behind the groups", { partition: { count: 0 } }],
  ["a group in two places", { groups: [{}, { teamId: 2 }], partition: { count: 2 } }],
  ["a group in the wrong place", { groups: [{ partition: 1 }], partition: { tokens: new Map(), ids: [] } }],
])("finds %s", (_, more) => {
  expect(kinds(more)).toEqual(["index"]);
});

it("finds a group that is not there, or has another token, though it was shown in the end", () => {
  const final = get([2, 3], {}, { isFinal: true });
  expect(kinds({ groups: [], partition: { tokens: new Map(), ids: [] } }, [final])).toEqual(["index"]);
  const tokens = new Map([["of t1", "a"]]);
  expect(kinds({ groups: [{ digest: "digest of t1" }], partition: { tokens } }, [final])).toEqual(["index"]);
});

it("finds two groups of one team id, and a group that was said not to be made", () => {
  const groups = [{}, { id: "b", digest: "digest of t1" }];
  const tokens = new Map([
    ["of t0", "a"],
    ["of t1", "b"],
  ]);
  const creation = call("get", [2, 3], NOT_MADE, { group: "one/b", value: "n1" });
  expect(kinds({ groups, partition: { tokens, ids: ["a", "b"], count: 2 } }, [creation])).toEqual([
    "index",
    "not made was made",
  ]);
});
