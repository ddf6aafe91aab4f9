import { isDeepStrictEqual } from "node:util";
import { DAY_MS } from "../../src/domain/durations.ts";
import type { Environment } from "../../src/domain/environment.ts";
import type { Webhook } from "../../src/domain/webhook.ts";
import type { ScriptedRedis } from "../../src/store/connection/connection.ts";
import type { RingKey } from "../../src/store/encryption.ts";
import { FIELD } from "../../src/store/groups/group-record.ts";
import {
  environmentKey,
  environmentPrefix,
  eventsKey,
  groupKey,
  revokedSessionsKey,
  TOKEN_KEYS_KEY,
  webhookKey,
} from "../../src/store/keys.ts";
import { checkValue, recordedKeys } from "../../src/store/secret-keys/ring.ts";
import { contents } from "./contract/context.ts";

/*
 * Functions that write unusual states to Redis, such as times in the future, lost data and large numbers. No call of
 * the store creates these states. The tests in `contract/` call these functions, because these tests must not contain
 * Redis keys.
 */

/** Returns the key of a group, and the prefix of all keys of its environment. */
export function keysOf({ number }: Environment, providedId: string): { group: string; prefix: string } {
  return { group: groupKey(number, providedId), prefix: environmentPrefix(number) };
}

export function todayKey({ number }: Environment, stream: "events" | "updates" = "events"): string {
  return eventsKey(number, stream, Math.floor(Date.now() / DAY_MS));
}

/**
 * Sets the version of the last change, in microseconds since 1970. If this time is in the future, the store's clock
 * appears to have been set back.
 */
export async function setLastVersion(redis: ScriptedRedis, { number }: Environment, version: number): Promise<void> {
  await redis.hset(environmentKey(number), "version", String(version));
}

export async function setGroupsEver(redis: ScriptedRedis, { number }: Environment, count: number): Promise<void> {
  await redis.hset(environmentKey(number), "groups", String(count));
}

export async function loseEvents(redis: ScriptedRedis, environment: Environment): Promise<void> {
  for (const key of Object.keys(await contents(redis, environment))) if (isEvents(key)) await redis.del(key);
}

/** Returns the non-empty keys of an environment, without its record and its audit trail. */
export async function leftovers(redis: ScriptedRedis, environment: Environment): Promise<readonly string[]> {
  const record = environmentKey(environment.number);
  const left = Object.entries(await contents(redis, environment));
  // The embedded store may keep keys with empty values.
  return left
    .filter(([, value]) => !isDeepStrictEqual(value, []) && !isDeepStrictEqual({ ...(value as object) }, {}))
    .flatMap(([key]) => (key === record || isEvents(key) ? [] : key));
}

function isEvents(key: string): boolean {
  return /:(?:events|updates):\d+$/.test(key);
}

/**
 * Overwrites the encrypted token of the group `id`. The new value is the encrypted token of the group `other` with a
 * changed first character, so it cannot be decrypted.
 */
export async function damageToken(redis: ScriptedRedis, { number }: Environment, id: string, other: string) {
  const token = (await redis.hget(groupKey(number, other), FIELD.token)) ?? "";
  await redis.hset(groupKey(number, id), FIELD.token, `A${token.slice(1)}`);
}

export async function loseRevocations(redis: ScriptedRedis, { number }: Environment, id: string, teamId: number) {
  await redis.hdel(groupKey(number, id), FIELD.generation, FIELD.firstGeneration);
  await redis.del(revokedSessionsKey(number, teamId));
}

/** Returns the check values of the recorded encryption keys, by the ids of these encryption keys. */
export async function recordedCheckValues(redis: ScriptedRedis): Promise<Readonly<Record<string, string>>> {
  const recorded = recordedKeys(await redis.hgetall(TOKEN_KEYS_KEY));
  return Object.fromEntries([...recorded].map(([id, key]) => [id, key.checkValue]));
}

export async function loseRecordedKeys(redis: ScriptedRedis): Promise<void> {
  await redis.del(TOKEN_KEYS_KEY);
}

/** Sets the time at which a worker last encrypted with a key, in milliseconds since 1970. */
export async function setKeyUse(redis: ScriptedRedis, { id, secret }: RingKey, time: number): Promise<void> {
  await redis.hset(TOKEN_KEYS_KEY, id, `${checkValue(secret)} ${time}`);
}

const WEBHOOK_TIMES = {
  leaseExpireTime: "lease_expire_time",
  nextAttemptTime: "next_attempt_time",
  failingSince: "failing_since",
  cursorTime: "cursor_time",
} as const;

/** Sets one or more times of a webhook, in milliseconds since 1970. */
export async function setWebhookTimes(
  redis: ScriptedRedis,
  { number }: Environment,
  { id }: Pick<Webhook, "id">,
  times: { readonly [name in keyof typeof WEBHOOK_TIMES]?: number },
): Promise<void> {
  const fields = Object.entries(times).map(([name, time]) => [WEBHOOK_TIMES[name as keyof typeof times], `${time}`]);
  await redis.hset(webhookKey(number, id), Object.fromEntries(fields));
}
