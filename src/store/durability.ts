import type { StoreClient } from "./client.ts";

/**
 * Looks at whether Redis keeps what it is given.
 *
 * @returns what an operator should know and do, one text for each
 * @throws StoreUnavailable
 */
export async function durabilityWarnings(client: StoreClient): Promise<readonly string[]> {
  // What Redis does not let this user see cannot be warned of.
  const [memory, persistence, save] = await client.run("info", (redis) =>
    Promise.all([
      redis.info("memory").catch(unseen),
      redis.info("persistence").catch(unseen),
      redis.config("GET", "save").then((answer) => (answer as string[])[1], unseen),
    ]),
  );
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
