import { describe, expect, it } from "vitest";
import { HOUR_MS } from "../../../src/domain/durations.ts";
import type { Environment } from "../../../src/domain/environment.ts";
import { RequestIdReused, TokenNotFound, UserGroupNotFound } from "../../../src/domain/errors.ts";
import { BY } from "../stores.ts";
import { byId, byToken, type ContractContext, contents, eventsOf, fails, newEnvironment, newGroup } from "./context.ts";

export function revocationContract({ store, admin, client, redis, withGroup }: ContractContext): void {
  const events = (environment: Environment) => eventsOf(client(), environment);

  describe("revokeTokens", () => {
    it("revokes the current and the old token, and creates a token that the response does not contain", async () => {
      const environment = await newEnvironment();
      const given = newGroup("a", { name: "A", mapping: { s: "d" }, properties: { p: 1 } });
      const { group } = await store().getOrCreate(environment, given);
      const rotated = await store().rotate(environment, byToken(group.token, { graceMs: HOUR_MS }));
      const info = await admin().revokeTokens(environment, "a");
      for (const worker of [0, 1]) {
        for (const { token } of [group, rotated]) {
          await fails(store({ worker }).resolve(environment, token), TokenNotFound);
          await fails(store({ worker }).rotate(environment, byToken(token)), TokenNotFound);
        }
      }
      const { group: now } = await store({ worker: 1 }).getOrCreate(environment, given);
      expect([group.token, rotated.token]).not.toContain(now.token);
      expect(now.etag).not.toBe(rotated.etag);
      expect((await store().resolve(environment, now.token)).tokenExpireTime).toBeUndefined();
      const { token, ...rest } = now;
      const graceless = { lastRotationTime: now.tokenCreateTime, graceExpireTime: undefined, hasForeignToken: false };
      expect(info).toEqual({ ...rest, ...graceless });
      expect(JSON.stringify(info)).not.toContain(token);
    });

    it("revokes once per request id, and rejects other requests with this id", async () => {
      const { environment, group } = await withGroup();
      await store().getOrCreate(environment, newGroup("b"));
      const first = await admin().revokeTokens(environment, "a", "r");
      const before = await contents(redis(), environment);
      for (const worker of [0, 1]) expect(await admin({ worker }).revokeTokens(environment, "a", "r")).toEqual(first);
      for (const other of [
        admin().revokeTokens(environment, "b", "r"),
        store().rotate(environment, byId("a", { requestId: "r" })),
        store().rotate(environment, byToken(group.token, { requestId: "r" })),
      ]) {
        await fails(other, RequestIdReused);
      }
      expect(await contents(redis(), environment)).toEqual(before);
      expect(await events(environment)).toHaveLength(3);
      // A retry returns the current state of the group, even if the token was replaced after the revocation.
      const { etag } = await store().rotate(environment, byId("a"));
      expect((await admin().revokeTokens(environment, "a", "r")).etag).toBe(etag);
      expect(await events(environment)).toHaveLength(4);
    });

    it("can give the current token a grace period, but revokes an older token immediately", async () => {
      const { environment, group } = await withGroup();
      const { token } = await store().rotate(environment, byToken(group.token, { graceMs: HOUR_MS }));
      const info = await admin().revokeTokens(environment, "a", "r", BY, HOUR_MS);
      await fails(store().resolve(environment, group.token), TokenNotFound);
      expect((await store().resolve(environment, token)).tokenExpireTime).toBe(info.graceExpireTime);
      const now = (await store().get(environment, "a")).token;
      expect([group.token, token]).not.toContain(now);
      expect(await admin().revokeTokens(environment, "a", "r", BY, HOUR_MS)).toEqual(info);
      for (const graceMs of [0, HOUR_MS + 1])
        await fails(admin().revokeTokens(environment, "a", "r", BY, graceMs), RequestIdReused);
      await admin().revokeTokens(environment, "a");
      for (const ended of [token, now]) await fails(store().resolve(environment, ended), TokenNotFound);
    });

    it("never creates a group", async () => {
      const environment = await newEnvironment();
      await fails(admin().revokeTokens(environment, "a"), UserGroupNotFound);
      await fails(admin().revokeTokens(environment, "a", "r"), UserGroupNotFound);
      expect((await store().getOrCreate(environment, newGroup("a"))).created).toBe(true);
    });

    it("leaves exactly one current token, even after concurrent rotations", async () => {
      const { environment, group } = await withGroup();
      const calls = Array.from({ length: 30 }, (_, worker) =>
        worker % 3 === 0
          ? admin({ worker }).revokeTokens(environment, "a", "", { ...BY, method: "RevokeUserGroupTokens" })
          : store({ worker }).rotate(
              environment,
              worker % 3 === 1 ? byId("a", { graceMs: HOUR_MS }) : byToken(group.token),
            ),
      );
      const settled = await Promise.allSettled(calls);
      for (const each of settled) {
        expect(each.status === "fulfilled" || each.reason instanceof TokenNotFound, JSON.stringify(each)).toBe(true);
      }
      const { token } = await store().get(environment, "a");
      expect((await store().resolve(environment, token)).tokenExpireTime).toBeUndefined();
      await admin().revokeTokens(environment, "a");
      const made = settled.flatMap((each) =>
        each.status === "fulfilled" && "token" in each.value ? [each.value.token] : [],
      );
      for (const old of [token, group.token, ...made]) await fails(store().resolve(environment, old), TokenNotFound);
    });
  });
}
