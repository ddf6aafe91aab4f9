import type { Redis } from "ioredis";
import { MAX_API_TOKENS, MAX_GRACED } from "../../src/domain/api-token.ts";
import { TooManyApiTokens } from "../../src/domain/errors.ts";
import { redisApiTokens } from "../../src/store/api-tokens/api-tokens.ts";
import type { StoreClient } from "../../src/store/connection/client.ts";
import { redisEnvironments } from "../../src/store/environments.ts";
import type { GroupDeps } from "../../src/store/groups/group-record.ts";
import { redisUserGroupAdmin } from "../../src/store/groups/user-group-admin.ts";
import { quantile } from "../statistics.ts";
import { BY, ENVIRONMENT } from "./groups.ts";

export interface ScriptFigures {
  readonly title: string;
  readonly runs: number;
  readonly p50: number;
  readonly p90: number;
}

const PAGE_SIZE = 1000;

const TIMES = 100;

/** Minimum duration of scripts that Redis' SLOWLOG records, in microseconds. */
const RECORDED_MICROS = 50;

const MAX_RECORDED = 100_000;

/**
 * Measures the longest scripts with Redis' SLOWLOG. At the end, deletes the environment. The deletion takes seconds.
 */
export async function measureScripts(
  deps: GroupDeps & { client: StoreClient },
  redis: Redis,
): Promise<ScriptFigures[]> {
  const admin = redisUserGroupAdmin(deps);
  const listener = { revoked: () => {}, environmentDeleted: () => {} };
  const tokens = redisApiTokens({ ...deps, listener });
  const values = { displayName: "Back end", role: "admin", expireTime: undefined } as const;
  const { apiToken } = await tokens.create(ENVIRONMENT, values, BY);
  /** Creates an API token, and rotates it until it has the maximum number of secrets in their grace period. */
  const create = async () => {
    const { apiToken: created } = await tokens.create(ENVIRONMENT, values, { ...BY, actorId: apiToken.id });
    const rotation = { graceMs: 3_600_000, notBeyond: undefined };
    for (let i = 0; i < MAX_GRACED; i++) await tokens.rotate(ENVIRONMENT, created.id, rotation, BY);
    return created;
  };
  const find = (nameContains: string, after = "") =>
    admin.list(ENVIRONMENT, { after, prefix: "", size: PAGE_SIZE, nameContains });
  while ((await create().catch(unlessTooMany)) !== undefined);

  const figures: ScriptFigures[] = [];
  const measure = async (title: string, calls: () => Promise<unknown>) => {
    await redis.slowlog("RESET");
    await calls();
    const log = (await redis.slowlog("GET", MAX_RECORDED)) as [number, number, micros: number, command: string[]][];
    const scripts = log.filter(([, , , [command]]) => command === "evalsha");
    const durations = scripts.map(([, , micros]) => micros / 1000).sort((a, b) => a - b);
    figures.push({ title, runs: durations.length, p50: quantile(durations, 0.5), p90: quantile(durations, 0.9) });
  };
  await redis.config("SET", "slowlog-max-len", MAX_RECORDED);
  await redis.config("SET", "slowlog-log-slower-than", RECORDED_MICROS);
  await measure("list 1,000 ids", async () => {
    for (let i = 0, after = ""; i < TIMES; i++) after = (await find("", after)).next ?? "";
  });
  await measure("search in 250 names", () => find("no name contains this"));
  await measure("refuse an API token beyond the maximum", async () => {
    for (let i = 0; i < TIMES; i++) await create().catch(unlessTooMany);
  });
  await measure("revoke 50 of 1,000 API tokens", async () => {
    const revoked = await tokens.revoke(ENVIRONMENT, apiToken.id, BY, { issued: true });
    if (revoked !== MAX_API_TOKENS) throw new Error(`revoked ${revoked} API tokens`);
  });
  await measure("delete 100 groups of an environment", () =>
    redisEnvironments({ ...deps, listener }).delete(ENVIRONMENT, true, BY),
  );
  return figures;
}

function unlessTooMany(error: unknown): undefined {
  if (!(error instanceof TooManyApiTokens)) throw error;
}
