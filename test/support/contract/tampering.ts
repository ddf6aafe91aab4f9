import { describe, expect, it } from "vitest";
import type { Environment } from "../../../src/domain/environment.ts";
import { DomainError, RecordUnreadable } from "../../../src/domain/errors.ts";
import { partitionOf } from "../../../src/domain/partition.ts";
import type { UserGroup } from "../../../src/domain/user-group.ts";
import { digest, TokenCipher } from "../../../src/store/encryption.ts";
import { idBinding } from "../../../src/store/record.ts";
import { byId, byToken, type ContractContext, fails, keysOf, newEnvironment, newGroup, RING } from "./context.ts";

/** What a group is made of. All but `properties` must be there. */
const FIELDS = [
  "provided_id",
  "team_id",
  "name",
  "mapping",
  "token",
  "token_digest",
  "etag",
  "create_time",
  "update_time",
  "token_create_time",
];

/** What a viewer is shown needs fewer fields than the group. */
const VIEWER_FIELDS = ["provided_id", "team_id", "name", "mapping", "token_digest"];

/** Records that were changed by someone else fail closed. */
export function tamperingContract(context: ContractContext): void {
  describe("a record that was tampered with", () => {
    fields(context);
    moves(context);
    rotations(context);
  });
}

/** Two groups of one partition, which nothing but their ids keeps apart. */
async function twoGroups({ store }: ContractContext) {
  const environment = newEnvironment({ partitions: 1, tag: "Customer" });
  const { group } = await store().getOrCreate(environment, newGroup("a", { name: "A" }));
  const { group: other } = await store().getOrCreate(environment, newGroup("b", { name: "B" }));
  expect(partitionOf(environment, "a")).toBe(partitionOf(environment, "b"));
  return { environment, group, other, a: keysOf(environment, "a").group, b: keysOf(environment, "b").group };
}

/** Every call that answers with the group and its token. */
function answersOf({ store }: ContractContext, environment: Environment, { token }: UserGroup) {
  return [
    () => store().getOrCreate(environment, newGroup("a")),
    () => store().update(environment, "a", {}),
    () => store().update(environment, "a", { name: "x" }),
    () => store().rotate(environment, byToken(token, { requestId: "t" })),
    () => store().rotate(environment, byId("a", { requestId: "i" })),
  ];
}

function fields(context: ContractContext): void {
  const { store, redis } = context;

  it.each(FIELDS)("without %s answers nobody", async (field) => {
    const { environment, group, a } = await twoGroups(context);
    await redis().hdel(a, field);
    await fails(store().getOrCreate(environment, newGroup("a")), RecordUnreadable);
    await fails(store().update(environment, "a", {}), DomainError);
    if (VIEWER_FIELDS.includes(field)) await fails(store().resolve(environment, group.token), RecordUnreadable);
  });

  it.each([
    ["team_id", "x"],
    ["team_id", "1.5"],
    ["team_id", ""],
    ["team_id", "9007199254740993"],
    ["create_time", "yesterday"],
    ["mapping", "{"],
    ["mapping", ""],
    ["mapping", "null"],
    ["mapping", "[]"],
    ["mapping", '"x"'],
    ["properties", "{"],
    ["properties", "null"],
    ["properties", "[]"],
    ["properties", "7"],
    ["provided_id", "b"],
    ["provided_id", ""],
    ["token", "plain"],
    ["token", "k1."],
    ["token", "gone.AAAA"],
    ["token_digest", "x"],
  ])("whose %s is %j answers nobody", async (field, value) => {
    const { environment, group, a } = await twoGroups(context);
    await redis().hset(a, field, value);
    await fails(store().getOrCreate(environment, newGroup("a")), RecordUnreadable);
    await fails(store().update(environment, "a", {}), RecordUnreadable);
    if (!field.startsWith("token") && !["create_time", "provided_id"].includes(field)) {
      await fails(store().resolve(environment, group.token), RecordUnreadable);
    }
  });
}

function moves(context: ContractContext): void {
  const { store, redis } = context;
  const copy = async (from: string, to: string, names: readonly string[]) => {
    for (const name of names) await redis().hset(to, name, (await redis().hget(from, name)) ?? "");
  };

  it.each([
    ["the token", ["token"]],
    ["the token and its digest", ["token", "token_digest"]],
    ["the token and the id", ["token", "provided_id"]],
    ["all of it", FIELDS],
  ])("by moving %s from another group answers nobody", async (_, names) => {
    const { environment, group, other, a, b } = await twoGroups(context);
    await copy(b, a, names);
    for (const answer of answersOf(context, environment, group).slice(0, 3)) await fails(answer(), RecordUnreadable);
    // The group that it was taken from is as it was.
    expect((await store().getOrCreate(environment, newGroup("b"))).group).toEqual(other);
  });

  it("by moving it from an environment of the other tag answers nobody", async () => {
    const { environment, a } = await twoGroups(context);
    const testing = newEnvironment({ name: environment.name, tag: "Testing", partitions: 1 });
    await store().getOrCreate(testing, newGroup("a"));
    await copy(keysOf(testing, "a").group, a, FIELDS);
    await fails(store().getOrCreate(environment, newGroup("a")), RecordUnreadable);
  });

  it("by putting an earlier token back answers nobody", async () => {
    const { environment, a } = await twoGroups(context);
    const earlier = (await redis().hget(a, "token")) ?? "";
    await store().rotate(environment, byId("a"));
    await redis().hset(a, "token", earlier);
    await fails(store().getOrCreate(environment, newGroup("a")), RecordUnreadable);
  });

  it("by pointing a token at another group answers nobody", async () => {
    const { environment, group } = await twoGroups(context);
    const { prefix } = keysOf(environment, "a");
    for (const [digest, id] of Object.entries(await redis().hgetall(`${prefix}tokens`))) {
      await redis().hset(`${prefix}tokens`, digest, id === "a" ? "b" : "a");
    }
    await fails(store().resolve(environment, group.token), RecordUnreadable);
    await fails(store().rotate(environment, byToken(group.token)), DomainError);
  });

  it("by giving an ended token a grace again answers nobody", async () => {
    const { environment, group } = await twoGroups(context);
    const { prefix } = keysOf(environment, "a");
    const index = Object.entries(await redis().hgetall(`${prefix}tokens`));
    const ended = index.find(([, id]) => id === "a")?.[0];
    await store().rotate(environment, byToken(group.token));
    await redis().set(`${prefix}grace:${ended}`, "a");
    await fails(store().resolve(environment, group.token), RecordUnreadable);
  });

  it("by a token that stands for a group that is gone answers nobody", async () => {
    const { environment, group, a } = await twoGroups(context);
    await redis().del(a);
    await fails(store().resolve(environment, group.token), DomainError);
    await fails(store().rotate(environment, byToken(group.token)), DomainError);
  });
}

function rotations(context: ContractContext): void {
  const { store, redis } = context;

  it("by changing the answer that is kept for a request id answers nobody", async () => {
    const { environment, group } = await twoGroups(context);
    const rotation = byToken(group.token, { requestId: "r" });
    await store().rotate(environment, rotation);
    const key = `${keysOf(environment, "a").prefix}request:${digest("r")}`;
    const forged = new TokenCipher(RING).encrypt("ugt_forged", idBinding(environment, "other"));
    for (const [field, value] of [
      ["token_link", forged],
      ["token_digest", "x"],
      ["fingerprint", "x"],
    ] as const) {
      const before = (await redis().hget(key, field)) ?? "";
      await redis().hset(key, field, value);
      await fails(store().rotate(environment, rotation), DomainError);
      await redis().hset(key, field, before);
    }
    expect((await store().rotate(environment, rotation)).providedId).toBe("a");
  });
}
