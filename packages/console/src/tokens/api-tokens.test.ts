import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { expect, it } from "vitest";
import { ApiTokenSchema } from "../../../../gen/usergroup/admin/v1/api_token_pb.ts";
import { inOrder, summaryOf } from "./api-tokens.ts";

const DAY_MS = 86_400_000;

/** Creates an API token. All times are in days since 1970. */
function token(id: string, created: number, { used, expires }: { used?: number; expires?: number }) {
  return create(ApiTokenSchema, {
    id,
    displayName: `name of ${id}`,
    createTime: timestampFromMs(created * DAY_MS),
    ...(used === undefined ? {} : { lastUseTime: timestampFromMs(used * DAY_MS) }),
    ...(expires === undefined ? {} : { expireTime: timestampFromMs(expires * DAY_MS) }),
  });
}

const TOKENS = [
  token("a", 1, { used: 9 }),
  token("b", 3, { expires: 90 }),
  token("c", 2, {}),
  token("d", 4, { used: 8, expires: 30 }),
];

const idsIn = (order: string) => inOrder(TOKENS, order).map(({ id }) => id);

it("inOrder sorts API tokens by expiry time, last use or creation time, and by default by expiry time", () => {
  expect(idsIn("expires")).toEqual(["d", "b", "a", "c"]);
  expect(idsIn("unused")).toEqual(["c", "b", "d", "a"]);
  expect(idsIn("newest")).toEqual(["d", "b", "c", "a"]);
  for (const named of ["an unknown order", "constructor", "__proto__"]) expect(idsIn(named)).toEqual(idsIn("expires"));
});

it("summaryOf names the API token that expires first, and counts the unused API tokens", () => {
  expect(summaryOf(TOKENS)).toBe("4 API tokens; the first expires at 1970-01-31 00:00:00Z: name of d; never used: 2.");
  expect(summaryOf([token("a", 1, { used: 2 })])).toBe("1 API token; none expires; all were used.");
});
