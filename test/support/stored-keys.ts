import type { Redis } from "ioredis";
import { type EnvironmentName, environmentPath } from "../../src/domain/environment.ts";
import { apiTokenDigest, environmentNumberOf } from "../../src/domain/token.ts";
import { apiTokenKey, ENVIRONMENTS_KEY, environmentMember, fromMember, groupKey } from "../../src/store/keys.ts";

/** The key of an issued API token in Redis. */
export function keyOfApiToken(token: string): string {
  return apiTokenKey(environmentNumberOf(token) ?? 0, apiTokenDigest(token));
}

/** The number of the environment with a name, as the list in Redis has it. */
export async function numberOfEnvironment(redis: Pick<Redis, "zrangebylex">, name: EnvironmentName): Promise<number> {
  return (await listedNumbers(redis, name))[0] ?? 0;
}

/** The numbers under which a name is listed: several if a worker ended between two steps of a deletion. */
export async function listedNumbers(
  redis: Pick<Redis, "zrangebylex">,
  name: EnvironmentName,
): Promise<readonly number[]> {
  const path = environmentPath(name);
  const members = await redis.zrangebylex(ENVIRONMENTS_KEY, `(${environmentMember(path, "")}`, `(${path}!`);
  return members.map((member) => fromMember(member).number);
}

/** The key of a group of a server, whose environment has the tag Customer. */
export async function groupKeyOf(
  redis: Pick<Redis, "zrangebylex">,
  server: { readonly environment: string },
  providedId: string,
): Promise<string> {
  return groupKey(await numberOfEnvironment(redis, { name: server.environment, tag: "Customer" }), providedId);
}
