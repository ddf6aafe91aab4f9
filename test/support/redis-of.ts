import { type StoreClient, send } from "../../src/store/connection/client.ts";
import type { ScriptedRedis } from "../../src/store/connection/connection.ts";
import { argumentsOf, type Script, type ScriptArgs } from "../../src/store/connection/script.ts";

/** The connection beneath a client, to the only node or one of them, for tests that look beneath the store. */
export function redisOf({ nodes }: StoreClient): ScriptedRedis {
  const [node] = nodes.masters();
  if (!node) throw new Error("no node is known");
  return node.changes.redis;
}

/** Sends scripts that change something. @param deadline by Redis' clock, in milliseconds since 1970 */
export function sendBy(redis: ScriptedRedis, deadline: number) {
  return <Key extends string, Arg extends string>(
    script: Script<Key, Arg>,
    args: ScriptArgs<Key, Arg>,
  ): Promise<string[]> => send(redis, script as Script, argumentsOf(script, args, String(deadline)));
}
