import { waitFor } from "@user-group-service/testing/wait";
import { describe, expect, it } from "vitest";
import { EtagMismatch, UserGroupNotFound } from "../../../src/domain/errors.ts";
import {
  byId,
  type ContractContext,
  contents,
  fails,
  NEXT,
  newEnvironment,
  newGroup,
  oneWins,
  RING,
} from "./context.ts";

const GIVEN = { name: "Acme", mapping: { s: "d" }, properties: { p: 1 } };

export function updateContract({ store, redis }: ContractContext): void {
  const create = async () => {
    const environment = await newEnvironment();
    const { group } = await store().getOrCreate(environment, newGroup("a", GIVEN));
    // Times have a resolution of a millisecond. If the update came in the same millisecond as the creation,
    // `updateTime` would be equal to `createTime`.
    await waitFor("the clock advances", () => Date.now() > group.createTime);
    return { environment, group };
  };

  describe("update", () => {
    it.each([
      ["the name", { name: "New" }, { name: "New" }],
      ["the whole mapping", { mapping: { t: "e" } }, { mapping: { t: "e" } }],
      ["all properties", { properties: { q: 2 } }, { properties: { q: 2 } }],
      ["several fields", { name: "", mapping: {}, properties: {} }, { name: "", mapping: {}, properties: {} }],
      ["the removal of all properties", { properties: null }, { properties: undefined }],
      [
        "the name, and the removal of all properties",
        { name: "N", properties: null },
        { name: "N", properties: undefined },
      ],
    ])("changes only the given fields: %s", async (_, change, changed) => {
      const { environment, group } = await create();
      const updated = await store().update(environment, "a", change);
      expect(updated).toEqual({ ...group, ...changed, etag: updated.etag, updateTime: updated.updateTime });
      expect(updated.etag).not.toBe(group.etag);
      expect(updated.updateTime).toBeGreaterThan(group.updateTime);
      const again = await store({ worker: 1 }).getOrCreate(environment, newGroup("a"));
      expect(again).toEqual({ group: updated, created: false });
    });

    it("an update changes nothing if it has no values", async () => {
      const { environment, group } = await create();
      const before = await contents(redis(), environment);
      expect(await store().update(environment, "a", {})).toEqual(group);
      expect(await store().update(environment, "a", {}, group.etag)).toEqual(group);
      expect(await contents(redis(), environment)).toEqual(before);
    });

    it("accepts the removal of properties from a group without properties", async () => {
      const { environment } = await create();
      await store().update(environment, "a", { properties: null });
      expect((await store().update(environment, "a", { properties: null })).properties).toBeUndefined();
    });

    it("accepts only the current etag of the group", async () => {
      const { environment, group } = await create();
      const second = await store().update(environment, "a", { name: "second" }, group.etag);
      const before = await contents(redis(), environment);
      for (const stale of [group.etag, "x", `${second.etag} `]) {
        await fails(store().update(environment, "a", { name: "third" }, stale), EtagMismatch);
        await fails(store().update(environment, "a", {}, stale), EtagMismatch);
      }
      expect(await contents(redis(), environment)).toEqual(before);
      expect((await store().update(environment, "a", { name: "third" }, second.etag)).name).toBe("third");
    });

    it("succeeds for only one of several concurrent updates with the same etag", async () => {
      const { environment, group } = await create();
      const calls = Array.from({ length: 50 }, (_, worker) =>
        store({ worker }).update(environment, "a", { name: `writer ${worker}` }, group.etag),
      );
      const won = await oneWins(calls, EtagMismatch);
      expect((await store().getOrCreate(environment, newGroup("a"))).group).toEqual(won);
    });

    it.each([
      ["with a new name", { name: "New" }],
      ["without effect", {}],
    ])("an update %s fails before it writes if the key ring lacks the key of the group's token", async (_, change) => {
      const { environment, group } = await create();
      const before = await contents(redis(), environment);
      const update = store({ ring: [NEXT] }).update(environment, "a", change);
      await expect(update).rejects.toMatchObject({ reason: "RECORD_UNREADABLE", outcome: "not_made" });
      expect(await contents(redis(), environment)).toEqual(before);
      expect((await store({ ring: [NEXT, ...RING] }).update(environment, "a", {})).token).toBe(group.token);
    });

    it("a rotation by id does not need the encryption key of the group's token", async () => {
      const { environment, group } = await create();
      const rotated = await store({ ring: [NEXT] }).rotate(environment, byId("a"));
      expect(rotated).toMatchObject({ name: group.name, teamId: group.teamId });
      expect(rotated.token).not.toBe(group.token);
      expect((await store().resolve(environment, rotated.token)).providedId).toBe("a");
    });

    it("never creates a group", async () => {
      const environment = await newEnvironment();
      const before = await contents(redis(), environment);
      for (const change of [{ name: "x" }, {}, { properties: null }]) {
        await fails(store().update(environment, "a", change), UserGroupNotFound);
        await fails(store().update(environment, "a", change, "etag"), UserGroupNotFound);
      }
      expect(await contents(redis(), environment)).toEqual(before);
    });
  });
}
