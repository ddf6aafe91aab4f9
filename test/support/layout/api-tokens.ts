import { waitFor } from "@user-group-service/testing/wait";
import { describe, expect, it } from "vitest";
import { MAX_API_TOKENS, type NewApiToken } from "../../../src/domain/api-token.ts";
import type { Environment } from "../../../src/domain/environment.ts";
import { RecordUnreadable, TooManyApiTokens } from "../../../src/domain/errors.ts";
import { apiTokenDigest, environmentNumberOf } from "../../../src/domain/token.ts";
import { apiTokenKey, apiTokensKey } from "../../../src/store/keys.ts";
import { endsSoon } from "../contract/api-tokens.ts";
import { type ContractContext, contents, fails, newEnvironment } from "../contract/context.ts";
import { BY, testApiTokens } from "../stores.ts";

const VALUES: NewApiToken = { displayName: "Back end", role: "manage", expireTime: undefined };

export function apiTokenLayout({ client, redis, isShared }: ContractContext): void {
  const store = (worker = 0) => testApiTokens(client(worker));
  const refOf = (token: string) => ({ number: environmentNumberOf(token) ?? 0, digest: apiTokenDigest(token) });
  const create = async (given: Partial<NewApiToken> = {}, environment?: Environment) => {
    const own = environment ?? (await newEnvironment());
    const { apiToken, token } = await store().create(own, { ...VALUES, ...given });
    const ref = refOf(token);
    return { environment: own, apiToken, token, ref, digest: ref.digest, key: apiTokenKey(own.number, apiToken.id) };
  };
  const listed = async (environment: Environment) =>
    (await store().list(environment, {}, { after: "", size: MAX_API_TOKENS })).items;
  const isValid = async (token: string) => (await store().find(refOf(token))) !== undefined;
  const entries = (environment: Environment) => redis().hgetall(apiTokensKey(environment.number));
  const idOf = (i: number) => String(i).padStart(16, "0");
  /**
   * Writes a copy of the record of an API token, under another id and with another digest. Writes an index entry for
   * the copy as well.
   */
  const plant = async ({ number }: Environment, id: string, record: { readonly [field: string]: string }) => {
    await redis().hset(apiTokenKey(number, id), { ...record, digest: `d${id}` });
    await redis().hset(apiTokensKey(number), `d${id}`, id);
  };

  describe("API tokens in Redis", () => {
    it("API tokens are valid only with the secrets in their records, even if the index contains other entries", async () => {
      const { environment, apiToken, token } = await create();
      const other = await create({}, environment);
      const index = apiTokensKey(environment.number);
      const before = await redis().hgetall(index);
      const { token: second } = await store().rotate(environment, apiToken.id);
      await store().revoke(environment, other.apiToken.id);
      await redis().hset(index, before);
      for (const one of [token, other.token]) expect(await isValid(one)).toBe(false);
      expect((await listed(environment)).map(({ id }) => id)).toEqual([apiToken.id]);
      await redis().hset(index, refOf(second).digest, other.apiToken.id);
      expect(await isValid(second)).toBe(false);
      // A rotation writes a correct index entry.
      const { token: third } = await store().rotate(environment, apiToken.id, { graceMs: 60_000 });
      expect(await isValid(third)).toBe(true);
    });

    it.each([
      ["role", "root"],
      ["role", ""],
      ["role", undefined],
      ["display_name", undefined],
      ["creator", undefined],
      ["token_create_time", undefined],
      ["token_create_time", "x"],
      ["create_time", "x"],
      ["expire_time", ""],
      ["expire_time", "never"],
      ["last_use_time", "1.5"],
      ["digest", undefined],
      ["previous", "x"],
      ["previous", "x 1.5"],
    ])("an API token cannot be read but can be revoked if its %s is %j", async (field, value) => {
      const { environment, apiToken, ref, key } = await create();
      if (value === undefined) await redis().hdel(key, field);
      else await redis().hset(key, field, value);
      await fails(store().find(ref), RecordUnreadable);
      await fails(listed(environment), RecordUnreadable);
      await store().revoke(environment, apiToken.id);
      expect(await store().find(ref)).toBeUndefined();
      expect(await listed(environment)).toEqual([]);
    });

    it("API tokens have index entries only for valid secrets, and expire in Redis", async () => {
      const { environment, apiToken, key } = await create();
      const update = (expireTime: number | null) => store().update(environment, apiToken.id, { expireTime });
      await update(Date.now() + 600_000);
      expect(await redis().pttl(key)).toBeGreaterThan(500_000);
      await update(null);
      expect(await redis().pttl(key)).toBe(-1);
      const rotate = (graceMs: number) => store().rotate(environment, apiToken.id, { graceMs });
      const digests = [apiTokenDigest((await rotate(0)).token), apiTokenDigest((await rotate(600_000)).token)];
      expect(await entries(environment)).toEqual({ [digests[0] ?? ""]: apiToken.id, [digests[1] ?? ""]: apiToken.id });
      await store().revoke(environment, apiToken.id);
      expect(await contents(redis(), environment)).not.toHaveProperty([key]);
      expect(await entries(environment)).toEqual({});
    });

    it("the secret of an API token is not stored in plain text, and contains the number of the environment", async () => {
      const { environment, digest, token, key } = await create();
      expect(environmentNumberOf(token)).toBe(environment.number);
      const record = await redis().hgetall(key);
      expect(record).toMatchObject({ digest, role: "manage" });
      const all = JSON.stringify([await redis().keys("*"), record, await entries(environment)]);
      expect(all).not.toContain(token.slice(8, 24));
    });

    it("API tokens expire by the store's clock, and their records are then deleted", async () => {
      const { ref } = await create({ expireTime: Date.now() - 1 }).catch(() => ({
        ref: { number: 1, digest: "" },
      }));
      expect(await store().find(ref)).toBeUndefined();
      const later = await create({ expireTime: Date.now() + 60_000 });
      const soon = await create({}, later.environment);
      await endsSoon(store(), later.environment, soon.apiToken.id);
      await waitFor("the token has expired", async () => (await store().find(soon.ref)) === undefined);
      await waitFor("the token's record is deleted", async () => {
        // The embedded store deletes expired keys only before a call of the service. So the test makes such a call.
        await store().find(soon.ref);
        return (await redis().exists(soon.key)) === 0;
      });
      expect(await listed(later.environment)).toEqual([later.apiToken]);
    });

    it("the number of API tokens per environment is limited, and expired tokens do not count", async () => {
      const { environment, apiToken, key } = await create();
      const others = Array.from({ length: MAX_API_TOKENS - 1 }, (_, i) => [`gone${i}`, idOf(i)]);
      await redis().hset(apiTokensKey(environment.number), Object.fromEntries(others));
      // These index entries belong to tokens that do not exist. Such entries do not count toward the limit, and are
      // removed.
      const second = await create({}, environment);
      expect(Object.keys(await entries(environment)).length).toBe(2);
      // A token with two valid secrets counts once.
      const { token } = await store().rotate(environment, second.apiToken.id, { graceMs: 60_000 });
      const record = await redis().hgetall(key);
      const ids = Array.from({ length: MAX_API_TOKENS - 3 }, (_, i) => idOf(i));
      for (const id of ids) await plant(environment, id, record);
      const last = await create({}, environment);
      await fails(create({}, environment), TooManyApiTokens);
      await store().rotate(environment, second.apiToken.id);
      await store().revoke(environment, apiToken.id);
      await create({}, environment);
      await fails(create({}, environment), TooManyApiTokens);
      for (const text of [token, last.token]) expect(await isValid(text)).toBe(text === last.token);
      for (const id of ids) await redis().del(apiTokenKey(environment.number, id));
    });

    it("API tokens are all revoked with their issuer, even a thousand tokens", async () => {
      const { environment, apiToken, key } = await create({ role: "admin" });
      const record = { ...(await redis().hgetall(key)), issuers: apiToken.id };
      // The embedded store is too slow for a thousand tokens.
      const ids = Array.from({ length: isShared ? MAX_API_TOKENS - 1 : 50 }, (_, i) => idOf(i));
      for (const id of ids) await plant(environment, id, record);
      expect(await store().revoke(environment, apiToken.id, BY, { issued: true })).toBe(ids.length + 1);
      expect(await listed(environment)).toEqual([]);
      expect(await redis().keys(`ug:{${environment.number}}:api-token:*`)).toEqual([]);
    });

    it("the time of the last use of an API token is stored at most once a minute, and not after the revocation", async () => {
      const { environment, apiToken, ref, key } = await create();
      await store().noteUse(environment, apiToken.id);
      const found = await store().find(ref);
      expect(Math.abs((found?.apiToken.lastUseTime ?? 0) - Date.now())).toBeLessThan(60_000);
      expect(found?.unusedForMs).toBeLessThan(60_000);
      const recent = Date.now() - 30_000;
      await redis().hset(key, "last_use_time", String(recent));
      await store().noteUse(environment, apiToken.id);
      expect((await store().find(ref))?.apiToken.lastUseTime).toBe(recent);
      await redis().hset(key, "last_use_time", String(Date.now() - 120_000));
      await store().noteUse(environment, apiToken.id);
      expect((await store().find(ref))?.unusedForMs).toBeLessThan(60_000);
      await store().revoke(environment, apiToken.id);
      await store().noteUse(environment, apiToken.id);
      expect(await redis().exists(key)).toBe(0);
      expect(await entries(environment)).toEqual({});
    });
  });
}
