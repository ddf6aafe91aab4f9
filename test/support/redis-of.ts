import type { StoreClient } from "../../src/store/redis/client.ts";
import type { ScriptedRedis } from "../../src/store/redis/connection.ts";

/** The connection beneath a client, to the only node or one of them, for tests that look beneath the store. */
export function redisOf({ nodes }: StoreClient): ScriptedRedis {
  const [node] = nodes.masters();
  if (!node) throw new Error("no node is known");
  return node.changes.redis;
}
