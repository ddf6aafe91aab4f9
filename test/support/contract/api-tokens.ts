import { describe, expect, it } from "vitest";
import { apiTokenDigest, type NewApiToken } from "../../../src/domain/api-token.ts";
import type { Environment } from "../../../src/domain/environment.ts";
import { ApiTokenNotFound, EnvironmentNotFound, RecordUnreadable } from "../../../src/domain/errors.ts";
import type { RevocationListener } from "../../../src/domain/store.ts";
import { newApiToken } from "../../../src/domain/token.ts";
import { slotOf } from "../../../src/store/cluster-topology.ts";
import { apiTokenHintKey, apiTokenIdsKey, apiTokenKey, environmentKey } from "../../../src/store/keys.ts";
import { RevocationFeed } from "../../../src/store/revocation-feed.ts";
import { AUDIT, BY, TestApiTokens, TestEnvironments } from "../stores.ts";
import { waitFor } from "../wait.ts";
import { type ContractContext, fails, newEnvironment } from "./context.ts";

const VALUES: NewApiToken = { displayName: "Back end é{x}", role: "manage", expireTime: undefined, creator: "root" };

/** A listener that keeps what it is told. */
function newListener() {
  const told: string[] = [];
  return { told, revoked: (digest: string) => void told.push(digest), missed: () => void told.push("missed") };
}

/** API tokens. @param feeds whether other workers hear of a revocation */
export function apiTokenContract({ clients, redis }: ContractContext, { feeds }: { feeds: boolean }): void {
  const client = (worker = 0) => {
    const found = clients()[worker % clients().length];
    if (!found) throw new Error("no connection is open");
    return found;
  };
  const store = (listener: RevocationListener = newListener(), worker = 0) =>
    new TestApiTokens(client(worker), listener);
  const create = async (given: Partial<NewApiToken> = {}, environment?: Environment) => {
    const { name, tag } = newEnvironment({ tag: "Customer" });
    const made = environment ?? (await new TestEnvironments(client()).ensureEnvironment({ name, tag }));
    const { apiToken, token } = await store().create(made, { ...VALUES, ...given });
    return { environment: made, apiToken, token, digest: apiTokenDigest(token) };
  };

  describe("API tokens", () => {
    it("are found by every worker with what they were made with, and no other token is", async () => {
      const expireTime = Date.now() + 3_600_000;
      const { environment, apiToken, digest } = await create({ expireTime, role: "read", creator: "x" });
      expect(apiToken).toMatchObject({ ...VALUES, expireTime, role: "read", creator: "x", lastUseTime: undefined });
      expect(Math.abs(apiToken.createTime - Date.now())).toBeLessThan(60_000);
      for (const worker of [0, 1]) {
        const found = await store(newListener(), worker).find(digest);
        expect(found).toMatchObject({ apiToken, environment, unusedForMs: Number.POSITIVE_INFINITY });
        expect(found?.expiresInMs).toBeGreaterThan(3_000_000);
        expect(found?.expiresInMs).toBeLessThanOrEqual(3_660_000);
      }
      expect((await store().find((await create()).digest))?.expiresInMs).toBe(Number.POSITIVE_INFINITY);
      for (const unknown of [apiTokenDigest(newApiToken()), digest.slice(0, -1), ""]) {
        expect(await store().find(unknown)).toBeUndefined();
      }
    });

    it("are not in the store themselves, and theirs are in one slot", async () => {
      const { environment, apiToken, token, digest } = await create();
      const key = apiTokenKey(environment, apiToken.id);
      const record = await redis().hgetall(key);
      expect(record["digest"]).toBe(digest);
      const all = JSON.stringify([await redis().keys("*"), record, await redis().hgetall(apiTokenHintKey(digest))]);
      expect(all).not.toContain(token.slice(4, 20));
      expect(slotOf(key)).toBe(slotOf(environmentKey(environment)));
      expect(slotOf(apiTokenIdsKey(environment))).toBe(slotOf(environmentKey(environment)));
    });

    it("need an environment", async () => {
      const environment = newEnvironment();
      const before = (await redis().keys("ug:api-token:*")).length;
      await fails(store().create(environment, VALUES), EnvironmentNotFound);
      expect((await redis().keys("*")).filter((key) => key.includes(environment.name))).toEqual([]);
      expect((await redis().keys("ug:api-token:*")).length).toBe(before);
      // One that is lost takes its tokens with it.
      const made = await create();
      await redis().del(environmentKey(made.environment));
      expect(await store().find(made.digest)).toBeUndefined();
    });

    it("end when they expire, by the store's clock", async () => {
      const { digest } = await create({ expireTime: Date.now() - 1 });
      expect(await store().find(digest)).toBeUndefined();
      const soon = await create({ expireTime: Date.now() + 500 });
      await waitFor("it has expired", async () => (await store().find(soon.digest)) === undefined);
      expect((await store().list(soon.environment, { after: "", size: 9 })).items).toEqual([soon.apiToken]);
    });

    it("are revoked once, at once, for every worker", async () => {
      const { environment, apiToken, digest } = await create();
      const other = await create({}, environment);
      const listener = newListener();
      const answers = await Promise.allSettled(
        [0, 1, 0, 1].map((worker) => store(listener, worker).revoke(environment, apiToken.id)),
      );
      expect(answers.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
      for (const answer of answers) {
        if (answer.status === "rejected") expect(answer.reason).toBeInstanceOf(ApiTokenNotFound);
      }
      expect(listener.told).toEqual([digest]);
      for (const worker of [0, 1]) expect(await store(newListener(), worker).find(digest)).toBeUndefined();
      expect(await store().find(other.digest)).toBeDefined();
      expect(await redis().exists(apiTokenKey(environment, apiToken.id))).toBe(0);
      expect(await redis().exists(apiTokenHintKey(digest))).toBe(0);
      await fails(store().revoke(newEnvironment(), other.apiToken.id), ApiTokenNotFound);
      expect(await store().find(other.digest)).toBeDefined();
    });

    it("are not changed after the deadline of a change", async () => {
      const { environment, apiToken, digest } = await create();
      const [key, ids] = [apiTokenKey(environment, apiToken.id), apiTokenIdsKey(environment)];
      const newKey = apiTokenKey(environment, "late");
      const fields = ["digest", "late", "display_name", "late", "role", "read", "creator", "root"];
      const audited = AUDIT.ofEnvironment(environment, BY);
      const late = String(Date.now() - 1000);
      const answers = [
        await redis().ugCreateApiToken(environmentKey(environment), late, newKey, ids, "late", ...fields, ...audited),
        await redis().ugNoteApiTokenUse(key, late, "60000"),
        await redis().ugRevokeApiToken(key, late, ids, apiToken.id, "ug:revoked", ...audited),
      ];
      expect(answers.map(([outcome]) => outcome)).toEqual(["late", "late", "late"]);
      expect(await redis().exists(newKey)).toBe(0);
      expect((await store().find(digest))?.apiToken).toEqual(apiToken);
      expect((await store().list(environment, { after: "", size: 9 })).items).toEqual([apiToken]);
    });

    it("are listed in pages, in order of their ids", async () => {
      const { environment, apiToken } = await create();
      const made = await Promise.all(Array.from({ length: 6 }, () => create({}, environment)));
      const expected = [apiToken, ...made.map((one) => one.apiToken)].sort((a, b) => (a.id < b.id ? -1 : 1));
      const first = await store().list(environment, { after: "", size: 4 });
      expect(first.items).toEqual(expected.slice(0, 4));
      expect(first.next).toBe(expected[3]?.id);
      // The one that the next page begins after may be gone.
      await store().revoke(environment, first.next ?? "");
      expect(await store().list(environment, { after: first.next ?? "", size: 3 })).toEqual({
        items: expected.slice(4),
        next: undefined,
      });
      expect((await store().list(environment, { after: "", size: 6 })).next).toBeUndefined();
      expect(await store().list(newEnvironment(), { after: "", size: 9 })).toEqual({ items: [], next: undefined });
    });

    it("have their use noted at most once a minute, and not when they are gone", async () => {
      const { environment, apiToken, digest } = await create();
      const key = apiTokenKey(environment, apiToken.id);
      await store().noteUse(environment, apiToken.id);
      const found = await store().find(digest);
      expect(Math.abs((found?.apiToken.lastUseTime ?? 0) - Date.now())).toBeLessThan(60_000);
      expect(found?.unusedForMs).toBeLessThan(60_000);
      const recent = Date.now() - 30_000;
      await redis().hset(key, "last_use_time", String(recent));
      await store().noteUse(environment, apiToken.id);
      expect((await store().find(digest))?.apiToken.lastUseTime).toBe(recent);
      await redis().hset(key, "last_use_time", String(Date.now() - 120_000));
      await store().noteUse(environment, apiToken.id);
      expect((await store().find(digest))?.unusedForMs).toBeLessThan(60_000);
      await store().revoke(environment, apiToken.id);
      await store().noteUse(environment, apiToken.id);
      expect(await redis().exists(key)).toBe(0);
    });

    it("are believed by their records alone", async () => {
      const one = await create();
      const two = await create({ role: "admin" }, one.environment);
      // A hint that leads to another token, to none, or back to one that is revoked.
      await redis().hset(apiTokenHintKey(one.digest), "at", `${one.environment.name}/Customer/${two.apiToken.id}`);
      expect(await store().find(one.digest)).toBeUndefined();
      await redis().hset(apiTokenHintKey(one.digest), "at", `${one.environment.name}/Customer/none`);
      expect(await store().find(one.digest)).toBeUndefined();
      await store().revoke(one.environment, two.apiToken.id);
      await redis().hset(apiTokenHintKey(two.digest), "at", `${one.environment.name}/Customer/${two.apiToken.id}`);
      expect(await store().find(two.digest)).toBeUndefined();
      await redis().hset(apiTokenHintKey(one.digest), "at", "nowhere");
      await fails(store().find(one.digest), RecordUnreadable);
    });

    it.each([
      ["role", "root"],
      ["role", ""],
      ["role", undefined],
      ["display_name", undefined],
      ["creator", undefined],
      ["create_time", undefined],
      ["create_time", "x"],
      ["expire_time", ""],
      ["expire_time", "never"],
      ["last_use_time", "1.5"],
    ])("whose %s is %j answer nobody", async (field, value) => {
      const { environment, apiToken, digest } = await create();
      const key = apiTokenKey(environment, apiToken.id);
      if (value === undefined) await redis().hdel(key, field);
      else await redis().hset(key, field, value);
      await fails(store().find(digest), RecordUnreadable);
      await fails(store().list(environment, { after: "", size: 9 }), RecordUnreadable);
      await store().revoke(environment, apiToken.id);
      expect((await store().list(environment, { after: "", size: 9 })).items).toEqual([]);
    });

    it.runIf(feeds)("are known to be revoked wherever a feed listens", async () => {
      const listener = newListener();
      const feed = new RevocationFeed(client(1), { listener, onRefused: (error) => expect.fail(error.message) });
      try {
        await waitFor("it has subscribed", () => listener.told.includes("missed"));
        for (let i = 0; i < 5; i++) {
          const { environment, apiToken, digest } = await create();
          await store().revoke(environment, apiToken.id);
          await waitFor("it is told", () => listener.told.includes(digest));
        }
      } finally {
        feed.close();
      }
    });
  });
}
