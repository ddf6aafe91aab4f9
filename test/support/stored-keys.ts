import type { Redis } from "ioredis";
import { type EnvironmentName, environmentPath } from "../../src/domain/environment.ts";
import { apiTokenDigest, environmentNumberOf } from "../../src/domain/token.ts";
import {
  apiTokenKey,
  apiTokensKey,
  ENVIRONMENTS_KEY,
  environmentMember,
  fromMember,
  groupKey,
} from "../../src/store/keys.ts";

export async function keyOfApiToken(redis: Pick<Redis, "hget">, token: string): Promise<string> {
  const number = environmentNumberOf(token) ?? 0;
  return apiTokenKey(number, (await redis.hget(apiTokensKey(number), apiTokenDigest(token))) ?? "");
}

export async function numberOfEnvironment(redis: Pick<Redis, "zrangebylex">, name: EnvironmentName): Promise<number> {
  return (await listedNumbers(redis, name))[0] ?? 0;
}

/**
 * Returns the numbers that the list of environments contains for a name. There can be several: if a worker exits
 * between two steps of a deletion, the list still contains the deleted environment.
 */
export async function listedNumbers(
  redis: Pick<Redis, "zrangebylex">,
  name: EnvironmentName,
): Promise<readonly number[]> {
  const path = environmentPath(name);
  const members = await redis.zrangebylex(ENVIRONMENTS_KEY, `(${environmentMember(path, "")}`, `(${path}!`);
  return members.map((member) => fromMember(member).number);
}

/** Returns the Redis key of a group in the customer environment of a server. */
export async function groupKeyOf(
  redis: Pick<Redis, "zrangebylex">,
  server: { readonly environment: string },
  providedId: string,
): Promise<string> {
  return groupKey(await numberOfEnvironment(redis, { name: server.environment, tag: "Customer" }), providedId);
}
