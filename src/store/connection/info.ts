import type { Redis } from "ioredis";
import type { StoreClient } from "./client.ts";
import { errorCodeOf } from "./errors.ts";

export interface NodeMemory {
  readonly name: string;
  /** The memory that counts against the limit, in bytes. */
  readonly usedBytes: number;
  /** The limit, in bytes: `maxmemory`, or the memory of the machine if `maxmemory` is 0. */
  readonly maxBytes: number;
}

/** Reads the memory of every node. Omits nodes that do not answer. If the user may not send INFO, returns no nodes. */
export async function memoryOf(client: StoreClient): Promise<readonly NodeMemory[]> {
  try {
    const infos = await client.each("info", async (redis, name) => ({ name, info: await redis.info("memory") }));
    return infos.map(({ name, info }) => {
      const bytes = (field: string) => Number(infoField(info, field) ?? 0);
      return {
        name,
        // Buffers for replicas and for the AOF do not count against the limit.
        usedBytes: bytes("used_memory") - bytes("mem_not_counted_for_evict"),
        maxBytes: bytes("maxmemory") || bytes("total_system_memory"),
      };
    });
  } catch {
    return [];
  }
}

/**
 * If the configuration of Redis can cause a loss of data, returns warnings for the operator. @throws StoreUnavailable
 */
export async function durabilityWarnings(client: StoreClient, minReplicas: number): Promise<readonly string[]> {
  const ofNodes = await client.each("info", (redis) => warningsOf(redis, minReplicas));
  return [...new Set(ofNodes.flat())];
}

/** Returns the advice to increase `hash-max-listpack-value`. Returns undefined if no node uses the default value 64. */
export async function memoryAdvice(client: StoreClient): Promise<string | undefined> {
  const settings = await client.each("info", (redis) => settingOf(redis, "hash-max-listpack-value"));
  if (!settings.includes("64")) return undefined;
  return "Redis' hash-max-listpack-value is 64: set it to 1024, so that user groups whose mapping or properties exceed 64 bytes need a third less memory";
}

async function warningsOf(redis: Redis, minReplicas: number): Promise<string[]> {
  // A setting that the user may not read causes no warning.
  const [memory, persistence, save, minReplicasToWrite] = await Promise.all([
    redis.info("memory").catch(undefinedIfDenied),
    redis.info("persistence").catch(undefinedIfDenied),
    settingOf(redis, "save"),
    settingOf(redis, "min-replicas-to-write"),
  ]);
  const warnings: string[] = [];
  const policy = infoField(memory, "maxmemory_policy");
  if (policy !== undefined && policy !== "noeviction") {
    warnings.push(
      `Redis may delete groups and tokens when its memory is full, because maxmemory-policy is ${policy}: set it to noeviction`,
    );
  }
  if (infoField(persistence, "aof_enabled") === "0" && save === "") {
    warnings.push(
      "Redis writes nothing to disk, so a restart loses all groups and tokens: set appendonly yes, or a save interval",
    );
  }
  if (minReplicas > 0 && minReplicasToWrite === "0") {
    warnings.push(
      `MIN_REPLICAS_ACK is ${minReplicas}, but Redis' min-replicas-to-write is 0: a master that has lost its replicas still accepts changes and answers reads. A failover loses these changes, and these reads can be outdated. Set min-replicas-to-write to ${minReplicas}`,
    );
  }
  return warnings;
}

function settingOf(redis: Redis, name: string): Promise<string | undefined> {
  return redis.config("GET", name).then((answer) => (answer as string[])[1], undefinedIfDenied);
}

/** Returns undefined if the user may not send the command. Throws all other errors. */
function undefinedIfDenied(error: Error): undefined {
  if (!["NOPERM", "ERR"].includes(errorCodeOf(error) ?? "")) throw error;
  return undefined;
}

function infoField(info: string | undefined, name: string): string | undefined {
  return new RegExp(`^${name}:(.*?)\\r?$`, "m").exec(info ?? "")?.[1];
}
