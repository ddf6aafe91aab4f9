import type { StoreClient } from "./client.ts";
import type { ScriptedRedis } from "./connection.ts";

/**
 * Checks whether Redis is set up to keep its data.
 *
 * @param minReplicas how many replicas must confirm a change
 * @returns what an operator should know and do, one text for each
 * @throws StoreUnavailable
 */
export async function durabilityWarnings(client: StoreClient, minReplicas = 0): Promise<readonly string[]> {
  const ofNodes = await client.each("info", (redis) => warningsOf(redis, minReplicas));
  // Nodes of a Cluster are mostly set up alike.
  return [...new Set(ofNodes.flat())];
}

async function warningsOf(redis: ScriptedRedis, minReplicas: number): Promise<string[]> {
  const setting = (name: string) => redis.config("GET", name).then((answer) => (answer as string[])[1], unseen);
  // There is no warning of settings that Redis does not show to this user.
  const [memory, persistence, save, toWrite] = await Promise.all([
    redis.info("memory").catch(unseen),
    redis.info("persistence").catch(unseen),
    setting("save"),
    setting("min-replicas-to-write"),
  ]);
  const warnings: string[] = [];
  const policy = field(memory, "maxmemory_policy");
  if (policy !== undefined && policy !== "noeviction") {
    warnings.push(
      `Redis may throw groups and tokens away when its memory is full: its maxmemory-policy is ${policy}; set it to noeviction`,
    );
  }
  if (field(persistence, "aof_enabled") === "0" && save === "") {
    warnings.push(
      "Redis writes nothing to disk, so a restart of it loses every group and token; turn on appendonly, or give it a save interval",
    );
  }
  if (minReplicas > 0 && toWrite === "0") {
    warnings.push(
      `MIN_REPLICAS_ACK is ${minReplicas}, but Redis' min-replicas-to-write is 0: a master that is cut off from its replicas goes on making changes that a failover loses, and answers reads with what is out of date; set min-replicas-to-write to ${minReplicas}`,
    );
  }
  return warnings;
}

function unseen(error: Error): undefined {
  if (!error.message.startsWith("NOPERM") && !error.message.startsWith("ERR")) throw error;
  return undefined;
}

/** A field of what INFO answers. */
function field(info: string | undefined, name: string): string | undefined {
  return new RegExp(`^${name}:(.*?)\\r?$`, "m").exec(info ?? "")?.[1];
}
