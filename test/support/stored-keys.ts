import type { Redis } from "ioredis";
import type { EnvironmentName } from "../../src/domain/environment.ts";
import { apiTokenDigest, environmentNumberOf } from "../../src/domain/token.ts";
import { apiTokenKey, environmentNumberKey } from "../../src/store/keys.ts";

/** The key of an issued API token in Redis. */
export function keyOfApiToken(token: string): string {
  return apiTokenKey(environmentNumberOf(token) ?? 0, apiTokenDigest(token));
}

/** The number of an environment, as Redis has it. */
export async function numberOfEnvironment(redis: Pick<Redis, "get">, name: EnvironmentName): Promise<number> {
  return Number(await redis.get(environmentNumberKey(name)));
}
