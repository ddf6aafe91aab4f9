import { describe, expect, it } from "vitest";
import { RecordUnreadable, UserGroupNotFound } from "../../../src/domain/errors.ts";
import { newUserGroupToken } from "../../../src/domain/token.ts";
import { digest, tokenDigest } from "../../../src/store/encryption/encryption.ts";
import { KEY } from "../../../src/store/keys.ts";
import {
  byId,
  byToken,
  type ContractContext,
  contents,
  fails,
  imported,
  keysOf,
  newEnvironment,
  newGroup,
} from "./context.ts";
import { told } from "./imports.ts";

/** Keys that hold another type than the store's. Not for the embedded store, whose Redis tells no types apart. */
export function wrongTypeContract({ store, admin, redis, withGroup }: ContractContext): void {
  describe("a key of another type", () => {
    it("in a group's place answers nobody, and stays", async () => {
      const environment = newEnvironment();
      const { group: key } = keysOf(environment, "a");
      await redis().set(key, "x");
      await fails(store().getOrCreate(environment, newGroup("a")), RecordUnreadable);
      await fails(store().update(environment, "a", { name: "x" }), RecordUnreadable);
      await fails(store().rotate(environment, byId("a")), RecordUnreadable);
      await fails(admin().lookUp(environment, "a"), RecordUnreadable);
      await fails(admin().delete(environment, "a"), RecordUnreadable);
      await fails(admin().revokeTokens(environment, "a"), RecordUnreadable);
      const token = undefined;
      expect(told(await admin().import(environment, [imported("a", { token })], "upsert"))).toEqual([
        "RecordUnreadable",
      ]);
      expect(await contents(redis(), environment)).toEqual({ [key]: "x" });
    });

    it("in the token index's place answers nobody, and leaves nothing half made", async () => {
      const { environment, group } = await withGroup({ partitions: 1 });
      await redis().set(`${keysOf(environment, "a").prefix}tokens`, "x");
      const before = await contents(redis(), environment);
      await fails(store().getOrCreate(environment, newGroup("new")), RecordUnreadable);
      await fails(store().rotate(environment, byToken(group.token)), RecordUnreadable);
      await fails(store().rotate(environment, byId("a")), RecordUnreadable);
      await fails(store().resolve(environment, group.token), RecordUnreadable);
      await fails(admin().delete(environment, "a"), RecordUnreadable);
      for (const token of [undefined, newUserGroupToken(0)]) {
        const outcomes = await admin().import(environment, [imported("new", { token })]);
        expect(told(outcomes)).toEqual(["RecordUnreadable"]);
      }
      expect(await contents(redis(), environment)).toEqual(before);
    });

    it("in the place of the ids answers nobody, and leaves nothing half made", async () => {
      const environment = newEnvironment({ partitions: 1 });
      await redis().set(keysOf(environment, "a").prefix + KEY.ids, "x");
      const before = await contents(redis(), environment);
      await fails(store().getOrCreate(environment, newGroup("new")), RecordUnreadable);
      await fails(admin().list(environment, { after: "", size: 1, prefix: "" }), RecordUnreadable);
      const token = undefined;
      expect(told(await admin().import(environment, [imported("new", { token })]))).toEqual(["RecordUnreadable"]);
      expect(await contents(redis(), environment)).toEqual(before);
    });

    it("in the place of a foreign token's entry answers nobody, and lets no group have the token", async () => {
      const environment = newEnvironment({ partitions: 1 });
      const given = imported("a");
      const token = given.token ?? "";
      const { prefix } = keysOf(environment, "a");
      await redis().hset(prefix + KEY.foreign + tokenDigest(token), "x", "y");
      await fails(store().resolve(environment, token), RecordUnreadable);
      await fails(store().rotate(environment, byToken(token)), RecordUnreadable);
      expect(told(await admin().import(environment, [given]))).toEqual(["RecordUnreadable"]);
      await fails(admin().lookUp(environment, "a"), UserGroupNotFound);
    });

    it("in a request's or a grace's place answers nobody", async () => {
      const { environment, group } = await withGroup({ partitions: 1 });
      const { prefix } = keysOf(environment, "a");
      await redis().set(`${prefix}request:${digest("r1")}`, "x");
      await fails(store().rotate(environment, byId("a", { requestId: "r1" })), RecordUnreadable);
      await redis().hset(`${prefix}request-claim:${digest("r2")}`, "x", "y");
      await fails(store().rotate(environment, byId("a", { requestId: "r2" })), RecordUnreadable);
      expect((await store().getOrCreate(environment, newGroup("a"))).group).toEqual(group);

      const { token } = await store().rotate(environment, byId("a", { graceMs: 60_000 }));
      const grace = (await redis().keys("*")).find((key) => key.startsWith(`${prefix}grace:`)) ?? "";
      await redis().del(grace);
      await redis().hset(grace, "x", "y");
      await fails(store().resolve(environment, group.token), RecordUnreadable);
      expect((await store().resolve(environment, token)).providedId).toBe("a");
    });
  });
}
