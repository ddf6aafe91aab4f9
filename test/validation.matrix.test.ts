import { randomUUID } from "node:crypto";
import { describe, expect, it } from "vitest";
import { newApiToken, newUserGroupToken } from "../src/domain/token.ts";
import type { Json, JsonObject } from "../src/domain/user-group.ts";
import {
  type CallHeaders,
  failureOf,
  type GroupInput,
  type RotateInput,
  type ServiceClient,
  type UpdateInput,
} from "./support/clients.ts";
import { describeMatrix, newId } from "./support/matrix.ts";

type Fault = readonly [title: string, fields: readonly string[], call: Call];
type Call = (client: ServiceClient, headers: CallHeaders) => Promise<unknown>;

const get =
  (input: GroupInput): Call =>
  (client, headers) =>
    client.getUserGroup(input, headers);
const update =
  (input: UpdateInput): Call =>
  (client, headers) =>
    client.updateUserGroup(input, headers);
const rotate =
  (input: RotateInput): Call =>
  (client, headers) =>
    client.rotateUserGroupToken(input, headers);
const resolve =
  (token?: string): Call =>
  (client, headers) =>
    client.resolveViewer({ token }, headers);

const FAULTS: readonly Fault[] = [
  ["no id", ["user_group_id"], get({ name: "A" })],
  ["an empty id", ["user_group_id"], get({ userGroupId: "" })],
  ["an id of 257 characters", ["user_group_id"], get({ userGroupId: "é".repeat(257) })],
  ["a newline in an id", ["user_group_id"], get({ userGroupId: "a\nb" })],
  ["a newline at the end of an id", ["user_group_id"], get({ userGroupId: "a\n" })],
  ["a NUL in an id", ["user_group_id"], get({ userGroupId: "\0" })],
  ["a C1 control character in an id", ["user_group_id"], get({ userGroupId: "a\u0085" })],
  ["a space before an id", ["user_group_id"], get({ userGroupId: " a" })],
  ["a space after an id", ["user_group_id"], update({ userGroupId: "a " })],
  ["a no-break space after an id", ["user_group_id"], rotate({ userGroupId: "a\u00a0" })],
  ["a zero-width space in an id", ["user_group_id"], get({ userGroupId: "a\u200bb", mapping: { a: "b" } })],
  ["a byte order mark before an id", ["user_group_id"], get({ userGroupId: "\ufeffa" })],
  ["a bidirectional override in an id", ["user_group_id"], update({ userGroupId: "a\u202eb" })],
  ["a tag character in an id", ["user_group_id"], rotate({ userGroupId: "a\u{e0041}b" })],
  ["a name of 257 characters", ["name"], get({ userGroupId: "a", name: "n".repeat(257) })],
  ["an empty key of the mapping", ['mapping[""]'], get({ userGroupId: "a", mapping: { "": "x" } })],
  ["a number beyond the safe range", ["properties"], get({ userGroupId: "a", properties: { n: [2 ** 53] } })],
  ["an empty id and a long name", ["user_group_id", "name"], get({ userGroupId: "", name: "n".repeat(257) })],
  ["no id in an update", ["user_group_id"], update({ name: "A" })],
  ["a control character as the id in an update", ["user_group_id"], update({ userGroupId: "\u007f" })],
  ["a long name in an update", ["name"], update({ userGroupId: "a", name: "é".repeat(257) })],
  ["1,001 entries", ["mapping"], update({ userGroupId: "a", mapping: entries(1001) })],
  ["a long key", [`mapping["${"k".repeat(64)}…"]`], update({ userGroupId: "a", mapping: { ["k".repeat(257)]: "" } })],
  ["a long value", ['mapping["k"]'], update({ userGroupId: "a", mapping: { k: "v".repeat(1025) } })],
  ["properties of 64 KiB plus one byte", ["properties"], update({ userGroupId: "a", properties: sized(65537) })],
  ["33 levels of objects", ["properties"], update({ userGroupId: "a", properties: nested(33) })],
  ["33 levels with arrays", ["properties"], update({ userGroupId: "a", properties: { a: arrays(32) } })],
  ["a number below the safe range", ["properties"], update({ userGroupId: "a", properties: { n: -(2 ** 60) } })],
  ["an etag of 65 characters", ["etag"], update({ userGroupId: "a", etag: "e".repeat(65) })],
  ["no group in a rotation", ["group"], rotate({})],
  ["an empty token", ["current_token"], rotate({ currentToken: "" })],
  ["a token of 1,025 characters", ["current_token"], rotate({ currentToken: "t".repeat(1025) })],
  ["an empty id in a rotation", ["user_group_id"], rotate({ userGroupId: "" })],
  ["a control character in the id of a rotation", ["user_group_id"], rotate({ userGroupId: "a\t" })],
  ["a negative grace period", ["previous_token_ttl"], rotate({ userGroupId: "a", previousTokenTtl: "-1s" })],
  [
    "a grace period of more than 30 days",
    ["previous_token_ttl"],
    rotate({ userGroupId: "a", previousTokenTtl: "2592000.001s" }),
  ],
  ["a request id of 129 characters", ["request_id"], rotate({ userGroupId: "a", requestId: "r".repeat(129) })],
  ["a request id with a space", ["request_id"], rotate({ userGroupId: "a", requestId: "r r" })],
  ["a user group token as an id", ["user_group_id"], get({ userGroupId: newUserGroupToken() })],
  ["an API token as an id", ["user_group_id"], get({ userGroupId: newApiToken() })],
  ["an API token as a name", ["name"], get({ userGroupId: "a", name: newApiToken(), mapping: { a: "b" } })],
  [
    "tokens as the id and the name in an update",
    ["user_group_id", "name"],
    update({ userGroupId: newApiToken(), name: newUserGroupToken() }),
  ],
  ["a user group token as the id of a rotation", ["user_group_id"], rotate({ userGroupId: newUserGroupToken() })],
  ["a missing token to resolve", ["token"], resolve()],
  ["an empty token to resolve", ["token"], resolve("")],
  ["a long token to resolve", ["token"], resolve("t".repeat(8193))],
];

/** The errors that the reference client received. A key consists of the URL of a server and the title of a request. */
const ofReference = new Map<string, object>();

describeMatrix((place, row) => {
  describe("rejects, with the same error over every protocol,", () => {
    it.each(FAULTS)("%s", async (title, fields, call) => {
      const { server, client, reference, as } = place;
      const { fields: failure } = await failureOf(call(client, as.customer));
      expect(failure).toMatchObject({ code: "invalid_argument", reason: "VALIDATION_FAILED" });
      expect(failure.violations.map(({ field }) => field)).toEqual(fields);
      for (const { description } of failure.violations) expect(description).not.toBe("");
      expect(JSON.stringify(failure)).not.toMatch(/ug[tk]_/);
      // The reference client sends each request only once to each server.
      const requested = `${server.url} ${title}`;
      const reported = ofReference.get(requested) ?? (await failureOf(call(reference, as.customer))).fields;
      ofReference.set(requested, reported);
      expect(failure).toEqual(reported);
    });
  });

  it("accepts values at every limit", async () => {
    const { client, reference, as } = place;
    const userGroupId = newId().padEnd(256, "é");
    const name = "🙂".repeat(256);
    await client.getUserGroup({ userGroupId, name }, as.customer);
    const changes: UpdateInput[] = [
      // Names that are similar to tokens: mistyped, truncated, or with a suffix.
      ...[newApiToken().replace(/.$/, "-"), newUserGroupToken().slice(0, -1), `${newApiToken()}x`].map((name) => ({
        name,
      })),
      { name },
      { mapping: entries(1000) },
      { mapping: { ["é".repeat(256)]: "é".repeat(1024) } },
      { properties: sized(65536) },
      { properties: nested(32) },
      { properties: { a: arrays(31) } },
      { properties: { n: [2 ** 53 - 1, -(2 ** 53 - 1), 1e-300, 0.1, -0] } },
    ];
    for (const change of changes) {
      await client.updateUserGroup({ ...change, userGroupId }, as.customer);
      const { group } = await reference.getUserGroup({ userGroupId }, as.customer);
      expect(group).toMatchObject({ providedId: userGroupId, name, ...JSON.parse(JSON.stringify(change)) });
    }
    const rotation = { userGroupId, previousTokenTtl: "2592000s", requestId: randomUUID().padEnd(128, "r") };
    expect((await client.rotateUserGroupToken(rotation, as.customer)).group.providedId).toBe(userGroupId);
  });

  it("rejects a message of more than 1 MiB", async () => {
    const { client, reference, as } = place;
    for (const size of [1024 * 1024 + 1, 3 * 1024 * 1024]) {
      const call = update({ userGroupId: "a", name: "n".repeat(size) });
      const { fields, status } = await failureOf(call(client, as.customer));
      expect(fields).toMatchObject({ code: "resource_exhausted", reason: "MESSAGE_TOO_LARGE", violations: [] });
      expect(fields).toEqual((await failureOf(call(reference, as.customer))).fields);
      expect(status).toBe(row.protocol === "rest" ? 413 : undefined);
    }
    // The next call must succeed, on the same connection or on a new connection.
    await client.getUserGroup({ userGroupId: "after" }, as.customer);
  });
});

function entries(count: number): Record<string, string> {
  return Object.fromEntries(Array.from({ length: count }, (_, i) => [`k${i}`, "v"]));
}

function sized(bytes: number): JsonObject {
  const overhead = JSON.stringify({ text: "" }).length;
  return { text: "x".repeat(bytes - overhead) };
}

function nested(levels: number): JsonObject {
  return levels === 1 ? { end: true } : { a: nested(levels - 1) };
}

function arrays(levels: number): Json {
  return levels === 1 ? [1] : [arrays(levels - 1)];
}
