import type { Script } from "../script.ts";
import { NotSent } from "./answers.ts";
import type { ScriptedRedis } from "./connection.ts";

/** The commands of Redis that are used beside the scripts. Each touches one key, its first argument. */
export interface PlainCommands {
  get(key: string): Promise<string | null>;
  set(key: string, value: string, condition: "XX"): Promise<"OK" | null>;
  hgetall(key: string): Promise<Record<string, string>>;
  hmget(key: string, ...fields: string[]): Promise<(string | null)[]>;
  zcard(key: string): Promise<number>;
  zrangebylex(key: string, min: string, max: string, limit: "LIMIT", offset: number, count: number): Promise<string[]>;
  xrevrange(key: string, end: string, start: string, count: "COUNT", limit: number): Promise<[string, string[]][]>;
}

/** The name of a command. */
export type CommandName = keyof PlainCommands;

/** The arguments of a command; the first is the key. */
export type CommandArgs<Name extends CommandName = CommandName> = Readonly<Parameters<PlainCommands[Name]>>;

/** What a command answers. */
export type Answer<Name extends CommandName> = Awaited<ReturnType<PlainCommands[Name]>>;

/**
 * Sends a command.
 *
 * @param asking whether the slot of its key is on its way to this node of a Cluster (ASK)
 */
export function send<Name extends CommandName>(
  redis: ScriptedRedis,
  name: Name,
  args: CommandArgs<Name>,
  asking: boolean,
): Promise<Answer<Name>> {
  // If ASKING fails, so does the command that follows it.
  if (asking) redis.asking().catch(() => {});
  const command = redis[name] as unknown as (...args: CommandArgs<Name>) => Promise<Answer<Name>>;
  return command.call(redis, ...args);
}

/**
 * Sends a script, which the connection knows as a command from the first time on.
 *
 * @param args as `argumentsOf` makes them
 * @param asking as `send` has it. Redis looks there for the keys that a command names, but a further one that has not
 *   arrived yet is like one that is nowhere: a group would be created a second time, or a token not found. So only what
 *   touches one key is done; for all else the slot has to arrive first.
 * @throws NotSent
 */
export function sendScript(
  redis: Pick<ScriptedRedis, "asking" | "defineCommand">,
  { name, lua, isAlone }: Script,
  args: readonly string[],
  asking = false,
): Promise<string[]> {
  if (asking) {
    if (!isAlone) return Promise.reject(new NotSent("TRYAGAIN the keys are on their way to another node"));
    redis.asking().catch(() => {});
  }
  if (!(name in redis)) redis.defineCommand(name, { lua, numberOfKeys: 1 });
  const scripted = redis as unknown as Record<string, (...args: readonly string[]) => Promise<string[]>>;
  return (scripted[name] as NonNullable<(typeof scripted)[string]>)(...args);
}
