import { describe, expect, it } from "vitest";
import { failureOf, type GroupInput, type GroupResult } from "./support/clients.ts";
import { describeMatrix, newId } from "./support/matrix.ts";

const FULL = {
  name: "Acme ✓",
  mapping: { schema1: "warehouse", "schema 2": "" },
  properties: { tier: "gold", seats: 12.5, active: true, none: null, list: [1, "a", { b: [] }], nested: { a: {} } },
} as const satisfies GroupInput;

describeMatrix((place, row) => {
  const isRest = row.protocol === "rest";

  async function stored(userGroupId: string): Promise<GroupResult> {
    const { reference, as } = place;
    return (await reference.getUserGroup({ userGroupId }, as.customer)).group;
  }

  async function created(input: GroupInput = FULL): Promise<string> {
    const { reference, as } = place;
    const userGroupId = newId();
    await reference.getUserGroup({ ...input, userGroupId }, as.customer);
    return userGroupId;
  }

  describe("GetUserGroup", () => {
    it("creates a group with the given values", async () => {
      const { client, as } = place;
      const userGroupId = newId();
      const { group, newUserGroup } = await client.getUserGroup({ ...FULL, userGroupId }, as.customer);
      expect(newUserGroup).toBe(true);
      expect(group).toMatchObject({ name: FULL.name, providedId: userGroupId, properties: FULL.properties });
      expect(group.token).toMatch(/^ugt_[0-9A-Za-z]{38}$/);
      expect(group.teamId).toBeGreaterThan(0);
      const kept = await stored(userGroupId);
      expect(kept).toMatchObject({ ...FULL, providedId: userGroupId, tag: "Customer", token: group.token });
      expect(kept.teamId).toBe(group.teamId);
      expect(kept.etag).toBe(group.etag);
      expect(kept.createTime).toBe(kept.updateTime);
      expect(kept.createTime).toBe(kept.tokenCreateTime);
      if (!isRest) expect(group).toEqual(kept);
    });

    it("uses the id as the name and sets no properties if the request has only an id", async () => {
      const { client, as } = place;
      const userGroupId = newId();
      const { group } = await client.getUserGroup({ userGroupId }, as.customer);
      expect(group).toMatchObject({ name: userGroupId, properties: null });
      expect(await stored(userGroupId)).toMatchObject({ name: userGroupId, mapping: {}, properties: null });
    });

    it("treats ids that differ only in their Unicode normalization as different groups", async () => {
      const { client, as } = place;
      const { providedId: userGroupId } = (await client.getUserGroup({ userGroupId: `${newId()}\u00e9` }, as.customer))
        .group;
      const { group, newUserGroup } = await client.getUserGroup(
        { userGroupId: userGroupId.normalize("NFD") },
        as.customer,
      );
      expect(newUserGroup).toBe(true);
      expect(group.token).not.toBe((await stored(userGroupId)).token);
    });

    it("distinguishes empty properties from missing properties", async () => {
      const { client, as } = place;
      const userGroupId = newId();
      const { group } = await client.getUserGroup({ userGroupId, name: "", properties: {} }, as.customer);
      expect(group).toMatchObject({ name: "", properties: {} });
      expect(await stored(userGroupId)).toMatchObject({ name: "", properties: {} });
    });

    it("returns an existing group, and writes nothing", async () => {
      const { client, as } = place;
      const userGroupId = await created();
      const before = await stored(userGroupId);
      const first = await client.getUserGroup({ userGroupId }, as.customer);
      expect(first.newUserGroup).toBe(false);
      expect(before).toMatchObject(shown(first.group));
      const other = { userGroupId, name: "Other", mapping: { a: "b" }, properties: { other: 1 } };
      const second = await client.getUserGroup(other, as.customer);
      expect(second.newUserGroup).toBe(false);
      // The group already exists. REST returns the name and the properties of the request instead of the stored values.
      const { name, properties } = isRest ? other : before;
      expect(second.group).toEqual({ ...first.group, name, properties });
      expect(await stored(userGroupId)).toEqual(before);
    });
  });

  describe("UpdateUserGroup", () => {
    it("an update without a mask replaces the fields that the request sets, and keeps the other fields", async () => {
      const { client, as } = place;
      const userGroupId = await created();
      const before = await stored(userGroupId);
      const { group } = await client.updateUserGroup({ userGroupId, mapping: { only: "one" } }, as.customer);
      const mapped = await stored(userGroupId);
      expect(mapped).toMatchObject(shown(group));
      expect(mapped).toEqual({ ...before, mapping: { only: "one" }, etag: group.etag, updateTime: mapped.updateTime });
      expect(group.etag).not.toBe(before.etag);
      await client.updateUserGroup({ userGroupId, name: "New", properties: { b: 2 } }, as.customer);
      const renamed = await stored(userGroupId);
      expect(renamed).toMatchObject({ name: "New", mapping: { only: "one" }, properties: { b: 2 } });
      await client.updateUserGroup({ userGroupId }, as.customer);
      expect(await stored(userGroupId)).toEqual(renamed);
    });

    const singles: [string, GroupInput][] = [
      ["name", { name: "New" }],
      ["mapping", { mapping: { other: "place" } }],
      ["properties", { properties: { other: [true] } }],
    ];
    it.each(singles)("an update with the mask %s changes only the field in the mask", async (updateMask, change) => {
      const { client, as } = place;
      const userGroupId = await created();
      const before = await stored(userGroupId);
      const rest = { name: "X", mapping: { x: "x" }, properties: { x: "x" } };
      const { group } = await client.updateUserGroup({ userGroupId, ...rest, ...change, updateMask }, as.customer);
      const after = await stored(userGroupId);
      expect(after).toEqual({ ...before, ...change, etag: group.etag, updateTime: after.updateTime });
    });

    it.each([
      ["name", { name: "" }],
      ["mapping", { mapping: {} }],
      ["properties", { properties: null }],
      ["name,properties", { name: "", properties: null }],
    ] as const)(
      "an update with the mask %s clears the fields of the mask that the request does not set",
      async (updateMask, cleared) => {
        const { client, as } = place;
        const userGroupId = await created();
        await client.updateUserGroup({ userGroupId, updateMask }, as.customer);
        expect(await stored(userGroupId)).toMatchObject({ ...FULL, ...cleared });
      },
    );

    it("an update with the mask * clears the fields that the request does not set", async () => {
      const { client, as } = place;
      const userGroupId = await created();
      await client.updateUserGroup({ userGroupId, name: "All", updateMask: "*" }, as.customer);
      expect(await stored(userGroupId)).toMatchObject({ name: "All", mapping: {}, properties: null });
    });

    // Over REST, the keys of the body are the mask. So a REST request cannot contain the invalid masks below.
    if (!isRest) {
      it.each(["etag", "name,token", "name,*", "mapping.schema"])("rejects the mask %s", async (updateMask) => {
        const { client, as } = place;
        const userGroupId = await created();
        const failure = await failureOf(client.updateUserGroup({ userGroupId, name: "N", updateMask }, as.customer));
        expect(failure.fields).toMatchObject({
          code: "invalid_argument",
          reason: "INVALID_UPDATE_MASK",
          violations: [{ field: "update_mask" }],
        });
        expect(await stored(userGroupId)).toMatchObject(FULL);
      });
    }

    it("changes a group if the etag matches, and rejects an outdated etag", async () => {
      const { client, as } = place;
      const userGroupId = await created();
      const { etag } = await stored(userGroupId);
      const { group } = await client.updateUserGroup({ userGroupId, name: "First", etag }, as.customer);
      expect(group.name).toBe("First");
      const failure = await failureOf(client.updateUserGroup({ userGroupId, name: "Second", etag }, as.customer));
      expect(failure.fields).toMatchObject({ code: "aborted", reason: "ETAG_MISMATCH", violations: [] });
      expect(failure.status).toBe(isRest ? 412 : undefined);
      expect(await stored(userGroupId)).toMatchObject({ name: "First", etag: group.etag });
    });

    it("rejects the id of a missing group, and does not create the group", async () => {
      const { client, reference, as } = place;
      const userGroupId = newId();
      const failure = await failureOf(client.updateUserGroup({ userGroupId, name: "N" }, as.customer));
      expect(failure.fields).toMatchObject({ code: "not_found", reason: "USER_GROUP_NOT_FOUND", violations: [] });
      expect(failure.status).toBe(isRest ? 404 : undefined);
      expect((await reference.getUserGroup({ userGroupId }, as.customer)).newUserGroup).toBe(true);
    });
  });
});

function shown(group: GroupResult): Partial<GroupResult> {
  return Object.fromEntries(Object.entries(group).filter(([, value]) => value !== undefined));
}
