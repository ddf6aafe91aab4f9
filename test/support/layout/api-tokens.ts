import { describe, expect, it } from "vitest";
import type { NewApiToken } from "../../../src/domain/api-token.ts";
import type { Environment } from "../../../src/domain/environment.ts";
import { RecordUnreadable } from "../../../src/domain/errors.ts";
import { apiTokenDigest, environmentNumberOf } from "../../../src/domain/token.ts";
import { apiTokenKey, apiTokensKey } from "../../../src/store/keys.ts";
import { type ContractContext, fails, newEnvironment } from "../contract/context.ts";
import { testApiTokens } from "../stores.ts";

const VALUES: NewApiToken = { displayName: "Back end", role: "manage", expireTime: undefined, creator: "root" };

/** Records and index entries of API tokens. */
export function apiTokenLayout({ client, redis }: ContractContext): void {
  const store = () => testApiTokens(client());
  const refOf = (token: string) => ({ number: environmentNumberOf(token) ?? 0, digest: apiTokenDigest(token) });
  const create = async (given?: Environment) => {
    const environment = given ?? (await newEnvironment());
    const { apiToken, token } = await store().create(environment, VALUES);
    return { environment, apiToken, token, ref: refOf(token), key: apiTokenKey(environment.number, apiToken.id) };
  };
  const listed = async (environment: Environment) =>
    (await store().list(environment, {}, { after: "", size: 100 })).items;
  const isValid = async (token: string) => (await store().find(refOf(token))) !== undefined;

  describe("API tokens in Redis", () => {
    it("are valid only by the secrets that their records name, with any entries of the index", async () => {
      const { environment, apiToken, token } = await create();
      const other = await create(environment);
      const index = apiTokensKey(environment.number);
      const before = await redis().hgetall(index);
      const { token: second } = await store().rotate(environment, apiToken.id);
      await store().revoke(environment, other.apiToken.id);
      await redis().hset(index, before);
      for (const one of [token, other.token]) expect(await isValid(one)).toBe(false);
      expect((await listed(environment)).map(({ id }) => id)).toEqual([apiToken.id]);
      await redis().hset(index, refOf(second).digest, other.apiToken.id);
      expect(await isValid(second)).toBe(false);
      // A rotation makes it usable again.
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
    ])("are rejected if their %s is %j", async (field, value) => {
      const { environment, apiToken, ref, key } = await create();
      if (value === undefined) await redis().hdel(key, field);
      else await redis().hset(key, field, value);
      await fails(store().find(ref), RecordUnreadable);
      await fails(listed(environment), RecordUnreadable);
      await store().revoke(environment, apiToken.id);
      expect(await store().find(ref)).toBeUndefined();
      expect(await listed(environment)).toEqual([]);
    });
  });
}
