import { describe, expect, it } from "vitest";
import { HOUR_MS } from "../../../src/domain/durations.ts";
import { EtagMismatch, TokenNotFound, UserGroupNotFound } from "../../../src/domain/errors.ts";
import { leftovers } from "../stored-state.ts";
import {
  byId,
  byToken,
  type ContractContext,
  eventsOf,
  fails,
  imported,
  newEnvironment,
  newGroup,
  oneWins,
} from "./context.ts";

export function deletionContract({ store, admin, client, redis, withGroup }: ContractContext): void {
  describe("delete", () => {
    it("deletes the group, its tokens and their index entries, and frees its id", async () => {
      const environment = await newEnvironment();
      const { group } = await store().getOrCreate(environment, newGroup("a", { properties: { p: 1 } }));
      const rotated = await store().rotate(environment, byToken(group.token, { graceMs: HOUR_MS }));
      await admin().delete(environment, "a");
      for (const worker of [0, 1]) {
        for (const { token } of [group, rotated]) {
          await fails(store({ worker }).resolve(environment, token), TokenNotFound);
          await fails(store({ worker }).rotate(environment, byToken(token)), TokenNotFound);
        }
        await fails(store({ worker }).get(environment, "a"), UserGroupNotFound);
        await fails(admin({ worker }).delete(environment, "a"), UserGroupNotFound);
      }
      expect(await leftovers(redis(), environment)).toEqual([]);
      const again = await store().getOrCreate(environment, newGroup("a"));
      expect(again.created).toBe(true);
      expect(again.group.teamId).toBeGreaterThan(group.teamId);
      expect(again.group.properties).toBeUndefined();
      expect([group.token, rotated.token]).not.toContain(again.group.token);
      await fails(store().resolve(environment, rotated.token), TokenNotFound);
    });

    it("does not change other groups", async () => {
      const { environment } = await withGroup();
      const { group } = await store().getOrCreate(environment, newGroup("b"));
      const inGrace = await store().rotate(environment, byToken(group.token, { graceMs: HOUR_MS }));
      const own = async () => [await store().get(environment, "b"), await admin().lookUp(environment, "b")];
      const before = await own();
      await admin().delete(environment, "a");
      expect(await own()).toEqual(before);
      expect((await store().resolve(environment, group.token)).providedId).toBe("b");
      expect((await store().resolve(environment, inGrace.token)).providedId).toBe("b");
    });

    it("fails if the given etag is not current", async () => {
      const { environment, group } = await withGroup();
      const { etag } = await store().update(environment, "a", { name: "N" });
      for (const stale of [group.etag, "x", "__proto__", " "]) {
        await fails(admin().delete(environment, "a", stale), EtagMismatch);
      }
      await fails(admin().delete(environment, "b", etag), UserGroupNotFound);
      expect((await store().get(environment, "a")).etag).toBe(etag);
      await admin().delete(environment, "a", etag);
      await fails(store().get(environment, "a"), UserGroupNotFound);
    });

    it("accepts only the group's current token, which can be from this service or another system", async () => {
      const environment = await newEnvironment();
      await admin().import(environment, [imported("a", { token: "of-another-system" })]);
      const { group } = await store().getOrCreate(environment, newGroup("b"));
      const inGrace = await store().rotate(environment, byToken(group.token, { graceMs: HOUR_MS }));
      for (const [id, token, etag, Refused] of [
        ["a", "of-another-system", "x", EtagMismatch],
        ["b", group.token, "", TokenNotFound],
        ["b", "ugt_cut-off", "", TokenNotFound],
        ["b", "unknown-to-all", "", TokenNotFound],
      ] as const) {
        await fails(admin().delete(environment, { by: "token", token }, etag), Refused);
        expect((await store().get(environment, id)).providedId).toBe(id);
      }
      for (const [id, token] of [
        ["a", "of-another-system"],
        ["b", inGrace.token],
      ] as const) {
        await admin().delete(environment, { by: "token", token });
        await fails(store().get(environment, id), UserGroupNotFound);
        await fails(admin().delete(environment, { by: "token", token }), TokenNotFound);
      }
      await fails(store().resolve(environment, group.token), TokenNotFound);
    });

    it("a deletion by token never succeeds together with a concurrent rotation", async () => {
      const { environment, group } = await withGroup();
      let { token } = group;
      for (let i = 0; i < 10; i++) {
        const deletion = admin({ worker: 1 }).delete(environment, { by: "token", token });
        await oneWins<unknown>([deletion, store({ worker: 2 }).rotate(environment, byToken(token))], TokenNotFound);
        ({ token } = (await store().getOrCreate(environment, newGroup("a"))).group);
        await store().resolve(environment, token);
      }
    });

    it("succeeds for only one of several concurrent calls", async () => {
      const { environment } = await withGroup();
      const calls = Array.from({ length: 20 }, (_, worker) => admin({ worker }).delete(environment, "a"));
      await oneWins(calls, UserGroupNotFound);
      expect(await eventsOf(client(), environment)).toHaveLength(2);
    });

    it("makes a retry of an earlier rotation fail, even after the group was created again", async () => {
      const { environment, group } = await withGroup();
      const rotations = [byToken(group.token, { requestId: "t", graceMs: 1 }), byId("a", { requestId: "i" })] as const;
      for (const rotation of rotations) await store().rotate(environment, rotation);
      await admin().delete(environment, "a");
      await fails(store().rotate(environment, rotations[0]), TokenNotFound);
      await fails(store().rotate(environment, rotations[1]), UserGroupNotFound);
      const { group: next } = await store().getOrCreate(environment, newGroup("a"));
      await fails(store().rotate(environment, rotations[0]), TokenNotFound);
      expect((await store().get(environment, "a")).token).toBe(next.token);
    });

    it("makes the group's imported token available to other groups", async () => {
      const environment = await newEnvironment();
      const given = imported("a");
      await admin().import(environment, [given]);
      await admin().delete(environment, "a");
      await fails(store().resolve(environment, given.token ?? ""), TokenNotFound);
      expect(await admin().import(environment, [{ ...given, providedId: "b" }])).toMatchObject([
        { outcome: "created" },
      ]);
      expect((await store().resolve(environment, given.token ?? "")).providedId).toBe("b");
    });
  });
}
