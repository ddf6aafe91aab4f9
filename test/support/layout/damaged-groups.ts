import { describe, expect, it } from "vitest";
import { RecordUnreadable, TokenNotFound } from "../../../src/domain/errors.ts";
import { FIELD } from "../../../src/store/groups/group-record.ts";
import {
  type ContractContext,
  contents,
  fails,
  imported,
  NEXT,
  newEnvironment,
  newGroup,
} from "../contract/context.ts";
import { pagesOf } from "../contract/group-lists.ts";
import { keysOf } from "../stored-state.ts";

export function damagedGroupLayout({ store, admin, redis, withGroup }: ContractContext): void {
  describe("the store", () => {
    it.each([FIELD.createVersion, FIELD.mapping])(
      "does not import a group over a record with a damaged %s, but imports the other groups",
      async (field) => {
        const { environment } = await withGroup();
        await redis().hset(keysOf(environment, "a").group, field, "{");
        const before = await contents(redis(), environment);
        const outcomes = await admin().import(environment, [imported("a"), imported("b")], "upsert");
        expect(outcomes[0]).toMatchObject({ error: expect.any(RecordUnreadable) });
        expect(outcomes[1]).toMatchObject({ outcome: "created" });
        const after = await contents(redis(), environment);
        const { group } = keysOf(environment, "a");
        expect(after[group]).toEqual(before[group]);
      },
    );

    it("rejects an update if the key ring contains only ids that are similar to the key id of the group", async () => {
      const { environment } = await withGroup();
      for (const [keyId, ids] of [
        ["k1", ["k11", "1k1"]],
        ["k", ["k1"]],
        ["", ["k1"]],
      ] as const) {
        await redis().hset(keysOf(environment, "a").group, FIELD.keyId, keyId);
        const before = await contents(redis(), environment);
        const ring = ids.map((id) => ({ ...NEXT, id }));
        await fails(store({ ring }).update(environment, "a", { name: "New" }), RecordUnreadable);
        expect(await contents(redis(), environment)).toEqual(before);
      }
    });

    it("reports the outcome `unknown` for an update if the stored token is damaged", async () => {
      const { environment } = await withGroup();
      await redis().hset(keysOf(environment, "a").group, FIELD.token, "damaged");
      const update = store().update(environment, "a", { name: "New" });
      await expect(update).rejects.toMatchObject({ reason: "RECORD_UNREADABLE", outcome: "unknown" });
    });

    it("ignores a damaged day of the last resolve", async () => {
      const { environment, group } = await withGroup();
      for (const damaged of ["x", "", "-1", "1e300"]) {
        await redis().hset(keysOf(environment, "a").group, FIELD.lastResolveDay, damaged);
        expect((await store().resolve(environment, group.token)).lastResolveDay).toBeUndefined();
        expect((await admin().lookUp(environment, "a")).lastResolveDay).toBeUndefined();
      }
    });

    it("skips list entries without a group", async () => {
      const environment = await newEnvironment();
      for (const id of ["a", "c"]) await store().getOrCreate(environment, newGroup(id));
      const { prefix } = keysOf(environment, "a");
      for (const id of ["0", "b", "d"]) await redis().zadd(`${prefix}ids`, 0, id);
      for (const size of [1, 2, 10]) {
        const pages = await pagesOf(size, (range) => admin().list(environment, range));
        expect(pages.flat().map(({ providedId }) => providedId)).toEqual(["a", "c"]);
      }
    });

    it("fails to list or export groups if a record is unreadable", async () => {
      const environment = await newEnvironment();
      for (const id of ["a", "b"]) await store().getOrCreate(environment, newGroup(id));
      await redis().hset(keysOf(environment, "b").group, FIELD.token, "AAAA");
      await expect(admin().export(environment, { after: "", size: 9, prefix: "" })).rejects.toThrow("cannot be read");
      expect((await admin().list(environment, { after: "", size: 9, prefix: "" })).items).toHaveLength(2);
      await redis().hset(keysOf(environment, "b").group, FIELD.createVersion, "yesterday");
      await expect(admin().list(environment, { after: "", size: 9, prefix: "" })).rejects.toThrow("cannot be read");
    });

    it("can delete a group with an incomplete record", async () => {
      const environment = await newEnvironment();
      for (const field of [FIELD.teamId, FIELD.name, FIELD.token, FIELD.keyId, FIELD.digest, FIELD.createVersion]) {
        const { group } = await store().getOrCreate(environment, newGroup("a"));
        await redis().hdel(keysOf(environment, "a").group, field);
        await admin().delete(environment, "a");
        await fails(store().resolve(environment, group.token), TokenNotFound);
        expect((await store().getOrCreate(environment, newGroup("a"))).created).toBe(true);
        await admin().delete(environment, "a");
      }
    });
  });
}
