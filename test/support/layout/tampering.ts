import { describe, expect, it, onTestFinished } from "vitest";
import { DomainError, RecordUnreadable, TokenNotFound } from "../../../src/domain/errors.ts";
import { digest } from "../../../src/store/encryption.ts";
import { FIELD } from "../../../src/store/groups/group-record.ts";
import { byId, byToken, type ContractContext, fails, newEnvironment, newGroup } from "../contract/context.ts";
import { keysOf } from "../stored-state.ts";

/** The fields in the record of a new group that has no properties. */
const FIELDS = [
  FIELD.teamId,
  FIELD.name,
  FIELD.mapping,
  FIELD.token,
  FIELD.keyId,
  FIELD.digest,
  FIELD.createVersion,
] as const;

const VIEWER_FIELDS: readonly string[] = [FIELD.teamId, FIELD.name, FIELD.mapping];

/**
 * Tests that damaged or misplaced records cause errors. The service does not detect records that someone has changed on
 * purpose. The service trusts all clients with write access to Redis, because such clients can change groups anyway.
 */
export function tamperingLayout(context: ContractContext): void {
  describe("damaged records", () => {
    fields(context);
    moves(context);
    rotations(context);
  });
}

async function twoGroups({ store }: ContractContext) {
  const environment = await newEnvironment({ tag: "Customer" });
  const { group } = await store().getOrCreate(environment, newGroup("a", { name: "A" }));
  const { group: other } = await store().getOrCreate(environment, newGroup("b", { name: "B" }));
  return { environment, group, other, a: keysOf(environment, "a").group, b: keysOf(environment, "b").group };
}

function fields(context: ContractContext): void {
  const { store, redis } = context;
  let groups: ReturnType<typeof twoGroups> | undefined;

  /** Damages the group `a`, which all tests share, and repairs it after the test. */
  async function damaged(damage: (key: string) => Promise<unknown>) {
    groups ??= twoGroups(context);
    const { environment, group, a } = await groups;
    const whole = await redis().hgetall(a);
    onTestFinished(async () => {
      await redis().del(a);
      await redis().hset(a, whole);
    });
    await damage(a);
    return { environment, group };
  }

  it.each(FIELDS)("a record without the field %s causes errors", async (field) => {
    const { environment, group } = await damaged((key) => redis().hdel(key, field));
    await fails(store().getOrCreate(environment, newGroup("a")), RecordUnreadable);
    await fails(store().update(environment, "a", {}), DomainError);
    if (VIEWER_FIELDS.includes(field)) await fails(store().resolve(environment, group.token), RecordUnreadable);
    if (field === FIELD.digest) await fails(store().resolve(environment, group.token), TokenNotFound);
  });

  it.each([
    ...["x", "1.5", "", "9007199254740993"].map((value) => [FIELD.teamId, value] as const),
    [FIELD.createVersion, "yesterday"] as const,
    [FIELD.version, "yesterday"] as const,
    [FIELD.version, ""] as const,
    [FIELD.tokenCreateTime, "yesterday"] as const,
    ...["", "tomorrow", "1.5"].map((value) => [FIELD.expireTime, value] as const),
    ...["", "yesterday"].map((value) => [FIELD.suspendTime, value] as const),
    // A record that contains a suspend time must contain a reason as well.
    [FIELD.suspendTime, "1"] as const,
    ...["{", "", "null", "[]", '"x"'].map((value) => [FIELD.mapping, value] as const),
    ...["{", "null", "[]", "7"].map((value) => [FIELD.properties, value] as const),
    ...["", "plain", "k1.", "AAAA", "!"].map((value) => [FIELD.token, value] as const),
    ...["", "gone", "__proto__"].map((value) => [FIELD.keyId, value] as const),
    ...["", "x", "!".repeat(22), "A".repeat(22), "A".repeat(43)].map((value) => [FIELD.digest, value] as const),
  ])("a record whose field %s is %j causes errors", async (field, value) => {
    const { environment, group } = await damaged((key) => redis().hset(key, field, value));
    await fails(store().getOrCreate(environment, newGroup("a")), RecordUnreadable);
    await fails(store().update(environment, "a", {}), RecordUnreadable);
    if (VIEWER_FIELDS.includes(field) || field === FIELD.properties) {
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
    ["the token", [FIELD.token]],
    ["the digest of the token", [FIELD.digest]],
  ])("a record with %s of another group causes errors", async (_, names) => {
    const { environment, other, a, b } = await twoGroups(context);
    await copy(b, a, names);
    await fails(store().getOrCreate(environment, newGroup("a")), RecordUnreadable);
    await fails(store().update(environment, "a", {}), RecordUnreadable);
    expect((await store().getOrCreate(environment, newGroup("b"))).group).toEqual(other);
    expect((await store().resolve(environment, other.token)).providedId).toBe("b");
  });

  it.each([
    ["with another tag", "Testing"],
    ["without a tag", undefined],
  ] as const)("a record with the token of a group from an environment %s causes errors", async (_, tag) => {
    const { environment, a } = await twoGroups(context);
    const elsewhere = await newEnvironment({ name: environment.name, tag });
    await store().getOrCreate(elsewhere, newGroup("a"));
    await copy(keysOf(elsewhere, "a").group, a, [FIELD.token, FIELD.digest]);
    await fails(store().getOrCreate(environment, newGroup("a")), RecordUnreadable);
    await fails(store().update(environment, "a", {}), RecordUnreadable);
  });

  it("a record with all fields of another group is read under its own id, but the token resolves to the other group", async () => {
    const { environment, group, other, a, b } = await twoGroups(context);
    await copy(b, a, FIELDS);
    const { group: copied } = await store().getOrCreate(environment, newGroup("a"));
    expect(copied).toMatchObject({ providedId: "a", name: "B", token: other.token });
    expect((await store().resolve(environment, other.token)).providedId).toBe("b");
    await fails(store().resolve(environment, group.token), TokenNotFound);
  });

  it("a record with an earlier token causes an error", async () => {
    const { environment, a } = await twoGroups(context);
    const earlier = (await redis().hget(a, FIELD.token)) ?? "";
    await store().rotate(environment, byId("a"));
    await redis().hset(a, FIELD.token, earlier);
    await fails(store().getOrCreate(environment, newGroup("a")), RecordUnreadable);
  });
}

function rotations(context: ContractContext): void {
  const { store, redis } = context;

  it("a record with a damaged end of a grace period causes an error for the bearer of the old token", async () => {
    const { environment, group, a } = await twoGroups(context);
    await store().rotate(environment, byToken(group.token, { graceMs: 60_000 }));
    expect((await store().resolve(environment, group.token)).providedId).toBe("a");
    await redis().hset(a, FIELD.graceUntil, "later");
    await fails(store().resolve(environment, group.token), RecordUnreadable);
  });

  it("a record of a request id with changed data causes an error", async () => {
    const { environment, group } = await twoGroups(context);
    const rotation = byToken(group.token, { requestId: "r" });
    await store().rotate(environment, rotation);
    const key = `${keysOf(environment, "a").prefix}request:${digest("r")}`;
    for (const [field, value] of [
      ["digest", "x"],
      ["parameters", "x"],
    ] as const) {
      const before = (await redis().hget(key, field)) ?? "";
      await redis().hset(key, field, value);
      await fails(store().rotate(environment, rotation), DomainError);
      await redis().hset(key, field, before);
    }
    expect((await store().rotate(environment, rotation)).providedId).toBe("a");
  });
}
