import { describe, expect, it } from "vitest";
import { digest, TokenCipher, tokenDigest } from "../../../src/store/encryption/encryption.ts";
import { FIELD, PIECES } from "../../../src/store/groups/fields.ts";
import { tokenFields } from "../../../src/store/groups/group-record.ts";
import { KEY } from "../../../src/store/keys.ts";
import { byId, byToken, type ContractContext, contents, keysOf, newEnvironment, newGroup, RING } from "./context.ts";

/** A JSON object whose text has so many bytes. */
const ofBytes = (bytes: number, character = "x") => {
  const rest = bytes - Buffer.byteLength(JSON.stringify({ p: "" }));
  const count = Math.floor(rest / Buffer.byteLength(character));
  return { p: character.repeat(count) + "y".repeat(rest - count * Buffer.byteLength(character)) };
};

/** How groups are kept so that they take little memory, and what reads them again. */
export function compactContract({ store, redis, many, withGroup }: ContractContext): void {
  const stored = async (environment: ReturnType<typeof newEnvironment>) =>
    (await store({ worker: 1 }).getOrCreate(environment, newGroup("a"))).group;

  describe("long JSON", () => {
    const SIZES = [63, 64, 65, 128, 129, 300, 1023, 1024, 1025, 5000];

    it.each(["x", "é", "👪", "日"])("of %s has no piece above 64 bytes, and is read again", async (character) => {
      for (const size of SIZES) {
        const environment = newEnvironment();
        const given = { mapping: ofBytes(size, character), properties: ofBytes(size, character) };
        const { group } = await store().getOrCreate(environment, newGroup("a", given));
        expect(group).toMatchObject(given);
        expect(await stored(environment)).toEqual(group);
        expect((await store().resolve(environment, group.token)).properties).toEqual(given.properties);
        const values = Object.values(await redis().hgetall(keysOf(environment, "a").group));
        const longest = Math.max(...values.map((value) => Buffer.byteLength(value)));
        if (size <= 1024) expect(longest).toBeLessThanOrEqual(64);
        else expect(longest).toBe(size);
      }
    });

    it("that is replaced, at whatever length, leaves no piece behind", async () => {
      const { environment } = await withGroup();
      const { group: key } = keysOf(environment, "a");
      for (const size of [1024, 700, 1025, 65, 900, 64, 300, 10]) {
        const change = { mapping: ofBytes(size + 3), properties: ofBytes(size) };
        expect(await store().update(environment, "a", change)).toMatchObject(change);
        expect(await stored(environment)).toMatchObject(change);
        const record = await redis().hgetall(key);
        for (const [field, value] of [
          [PIECES.mapping, change.mapping],
          [PIECES.properties, change.properties],
        ] as const) {
          const pieces = Object.entries(record).filter(([name]) => new RegExp(`^${field}\\d+$`).test(name));
          const length = pieces.reduce((sum, [, piece]) => sum + piece.length, 0);
          expect(length).toBe(JSON.stringify(value).length);
        }
      }
      await store().update(environment, "a", { properties: ofBytes(1000) });
      await store().update(environment, "a", { properties: null });
      expect(Object.keys(await redis().hgetall(key)).filter((name) => name.startsWith("p"))).toEqual([]);
      expect((await stored(environment)).properties).toBeUndefined();
    });
  });

  it("changes in one millisecond have an etag each", async () => {
    const { environment, group } = await withGroup();
    const changes = Array.from({ length: 50 }, (_, i) =>
      i % 5 === 0
        ? store().rotate(environment, byId("a"))
        : store({ worker: i }).update(environment, "a", { name: `name ${i}` }),
    );
    const groups = [group, ...(await Promise.all(changes))];
    expect(new Set(groups.map(({ etag }) => etag)).size).toBe(51);
    expect(new Set(groups.map(({ updateTime }) => updateTime)).size).toBe(51);
  });

  it.each([8, 29, 36, 128, 700])(
    "a token of another shape, of %i characters, is kept, found and rotated",
    async (n) => {
      const environment = newEnvironment({ partitions: 1 });
      await store().getOrCreate(environment, newGroup("a", { name: "A" }));
      const { group: key, prefix } = keysOf(environment, "a");
      const token = "imported-".repeat(100).slice(0, n);
      const fields = tokenFields(new TokenCipher(RING).encrypt(environment, token, tokenDigest(token)));
      await redis().hdel(key, FIELD.token);
      await redis().hset(key, FIELD.digest, tokenDigest(token), ...fields);
      expect(await stored(environment)).toMatchObject({ name: "A", token });
      expect(await store().update(environment, "a", { name: "B" })).toMatchObject({ token });
      // Where it lies is up to its own index; the record is believed by its digest.
      await redis().set(`${prefix}grace:${digest("elsewhere")}`, "a");
      const rotated = await store().rotate(environment, byId("a", { requestId: "r" }));
      expect(rotated).toMatchObject({ name: "B", token: expect.stringMatching(/^ugt_/) });
      expect(Object.keys(await redis().hgetall(key)).filter((name) => name.startsWith(PIECES.foreignToken))).toEqual(
        [],
      );
      expect(await store().rotate(environment, byId("a", { requestId: "r" }))).toEqual(rotated);
      expect((await store().resolve(environment, rotated.token)).name).toBe("B");
    },
  );

  it("the ids of a partition are those of its groups, in order", async () => {
    const environment = newEnvironment({ partitions: 2 });
    const ids = Array.from({ length: many(300) }, (_, i) => `group ${i}`);
    const created = await Promise.all(
      [...ids, ...ids].map((id, worker) => store({ worker }).getOrCreate(environment, newGroup(id))),
    );
    const [first] = created;
    await store().rotate(environment, byToken(first?.group.token ?? ""));
    await store().update(environment, "group 1", { name: "N" });
    const all = await contents(redis(), environment);
    const prefixes = [...new Set(ids.map((id) => keysOf(environment, id).prefix))];
    expect(prefixes).toHaveLength(2);
    for (const prefix of prefixes) {
      const groups = Object.keys(all).filter((key) => key.startsWith(`${prefix}group:`));
      const expected = groups.map((key) => key.slice(`${prefix}group:`.length)).sort();
      expect(all[prefix + KEY.ids]).toEqual(expected.flatMap((id) => [id, "0"]));
    }
    expect(Object.keys(all).filter((key) => key.includes("}:group:"))).toHaveLength(ids.length);
  });
}
