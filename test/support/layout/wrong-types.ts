import { describe, expect, it } from "vitest";
import { RecordUnreadable } from "../../../src/domain/errors.ts";
import { newUserGroupToken } from "../../../src/domain/token.ts";
import { digest } from "../../../src/store/encryption.ts";
import { tokensKey } from "../../../src/store/keys.ts";
import {
  byId,
  byToken,
  type ContractContext,
  contents,
  fails,
  imported,
  newEnvironment,
  newGroup,
} from "../contract/context.ts";
import { reported } from "../contract/imports.ts";
import { keysOf } from "../stored-state.ts";

export function wrongTypeLayout({ store, admin, redis, withGroup }: ContractContext): void {
  describe("keys of another type", () => {
    it("a key of another type instead of a group's record causes errors, and is not changed", async () => {
      const environment = await newEnvironment();
      const { group: key } = keysOf(environment, "a");
      await redis().set(key, "x");
      await fails(store().getOrCreate(environment, newGroup("a")), RecordUnreadable);
      await fails(store().update(environment, "a", { name: "x" }), RecordUnreadable);
      await fails(store().rotate(environment, byId("a")), RecordUnreadable);
      await fails(admin().lookUp(environment, "a"), RecordUnreadable);
      await fails(admin().delete(environment, "a"), RecordUnreadable);
      await fails(admin().revokeTokens(environment, "a"), RecordUnreadable);
      await fails(admin().suspend(environment, "a"), RecordUnreadable);
      await fails(admin().resume(environment, "a"), RecordUnreadable);
      const token = undefined;
      expect(reported(await admin().import(environment, [imported("a", { token })], "upsert"))).toEqual([
        "RecordUnreadable",
      ]);
      expect((await contents(redis(), environment))[key]).toBe("x");
      expect(Object.keys(await contents(redis(), environment))).toHaveLength(2);
    });

    it("a key of another type instead of the token index causes errors, and no call changes any data", async () => {
      const { environment, group } = await withGroup();
      const { number } = environment;
      for (let i = 0; i < 256; i++) {
        const key = tokensKey(number, i.toString(16).padStart(2, "0"));
        await redis().del(key);
        await redis().set(key, "x");
      }
      const before = await contents(redis(), environment);
      await fails(store().getOrCreate(environment, newGroup("new")), RecordUnreadable);
      await fails(store().rotate(environment, byToken(group.token)), RecordUnreadable);
      await fails(store().rotate(environment, byId("a")), RecordUnreadable);
      await fails(store().resolve(environment, group.token), RecordUnreadable);
      await fails(admin().delete(environment, "a"), RecordUnreadable);
      for (const token of [undefined, newUserGroupToken()]) {
        const outcomes = await admin().import(environment, [imported("new", { token })]);
        expect(reported(outcomes)).toEqual(["RecordUnreadable"]);
      }
      expect(await contents(redis(), environment)).toEqual(before);
    });

    it("a key of another type instead of the list of ids causes errors, and no call changes any data", async () => {
      const environment = await newEnvironment();
      await redis().set(`${keysOf(environment, "a").prefix}ids`, "x");
      const before = await contents(redis(), environment);
      await fails(store().getOrCreate(environment, newGroup("new")), RecordUnreadable);
      await fails(admin().list(environment, { after: "", size: 1, prefix: "" }), RecordUnreadable);
      const token = undefined;
      expect(reported(await admin().import(environment, [imported("new", { token })]))).toEqual(["RecordUnreadable"]);
      expect(await contents(redis(), environment)).toEqual(before);
    });

    it("a key of another type instead of a request id's record causes an error", async () => {
      const { environment, group } = await withGroup();
      const { prefix } = keysOf(environment, "a");
      await redis().set(`${prefix}request:${digest("r1")}`, "x");
      await fails(store().rotate(environment, byId("a", { requestId: "r1" })), RecordUnreadable);
      expect((await store().getOrCreate(environment, newGroup("a"))).group).toEqual(group);
    });
  });
}
