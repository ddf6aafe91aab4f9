import { StoreClient, type StoreClientOptions } from "../client.ts";
import { readClock } from "../clock.ts";
import type { ScriptedRedis, StoreConnection } from "../connection.ts";
import { StoreNode, singleNode } from "../nodes.ts";
import { luaCompiler } from "./lua.ts";
import { type Command, newMemory, refusal } from "./memory.ts";

/** Opens the embedded store in the memory of this process. It is empty. */
export async function openEmbedded(options: StoreClientOptions): Promise<StoreClient> {
  const { default: fengari } = await import("fengari");
  const { commands, removeExpired } = newMemory();
  const compile = luaCompiler(fengari, (name, args) => {
    const command = commands[name];
    if (!command) throw refusal(`ERR the embedded store has no command '${name}'`);
    return command(...args);
  });
  const define = (name: string, run: Command) =>
    Object.assign(redis, {
      [name]: async (...args: readonly unknown[]) => {
        removeExpired();
        return run(...args.flatMap(toTexts));
      },
    });
  const redis = { disconnect() {} } as unknown as ScriptedRedis;
  for (const [name, command] of Object.entries(commands)) define(name, command);
  const { hgetall } = commands as { readonly hgetall: Command };
  define("hgetall", (key = "") => {
    const pairs = hgetall(key) as string[];
    return Object.fromEntries(pairs.flatMap((field, i) => (i % 2 === 0 ? [[field, pairs[i + 1]]] : [])));
  });
  redis.defineScript = (name, lua) => {
    const run = compile(lua);
    define(name, (count, ...args) => run(args.slice(0, Number(count)), args.slice(Number(count))));
  };
  const connection: StoreConnection = {
    redis,
    clock: await readClock(redis),
    losses: 0,
    replace: () => {},
    close: () => {},
  };
  return new StoreClient(singleNode(new StoreNode("embedded", connection)), options);
}

/** Converts an argument of a command to strings, as ioredis does. */
function toTexts(arg: unknown): string[] {
  return typeof arg === "object" && arg !== null ? Object.entries(arg).flat().map(String) : [String(arg)];
}
