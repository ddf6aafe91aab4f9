import { type StoreClient, send } from "../../src/store/connection/client.ts";
import type { ScriptedRedis } from "../../src/store/connection/connection.ts";
import { argumentsOf, type Script, type ScriptArgs } from "../../src/store/connection/script.ts";

/**
 * Returns the connection of a store client to Redis, so that a test can read stored data. If Redis is a Cluster,
 * returns the connection to one of its masters.
 */
export function redisOf({ nodes }: StoreClient): ScriptedRedis {
  const [node] = nodes.masters();
  if (!node) throw new Error("no node is connected");
  return node.changes.redis;
}

/**
 * Returns a function that runs a script with a deadline.
 *
 * @param deadline the deadline of each script, as a time of the clock of Redis in milliseconds since 1970
 */
export function sendBy(redis: ScriptedRedis, deadline: number) {
  return <Key extends string, Arg extends string>(
    script: Script<Key, Arg>,
    args: ScriptArgs<Key, Arg>,
  ): Promise<string[]> => send(redis, script as Script, argumentsOf(script, args, String(deadline)));
}
