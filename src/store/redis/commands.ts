import type { SCRIPTS } from "../scripts.ts";
import { NotSent } from "./answers.ts";
import type { ScriptedRedis } from "./connection.ts";

/** The commands of Redis that are used beside the scripts. Each touches one key, its first argument. */
interface PlainCommands {
  get(key: string): Promise<string | null>;
  hgetall(key: string): Promise<Record<string, string>>;
  hmget(key: string, ...fields: string[]): Promise<(string | null)[]>;
  zcard(key: string): Promise<number>;
  zrangebylex(key: string, min: string, max: string, limit: "LIMIT", offset: number, count: number): Promise<string[]>;
  xrevrange(key: string, end: string, start: string, count: "COUNT", limit: number): Promise<[string, string[]][]>;
}

/** The name of a script, as a command of a client. */
export type ScriptName = keyof typeof SCRIPTS;

/** What is asked of Redis. All keys that a command touches share the slot of its first argument. */
export type StoreCommands = {
  readonly [name in ScriptName]: (key: string, ...args: string[]) => Promise<string[]>;
} & PlainCommands;

/** The name of a command. */
export type CommandName = keyof StoreCommands;

/** The arguments of a command; the first is the key. */
export type CommandArgs<Name extends CommandName = CommandName> = Readonly<Parameters<StoreCommands[Name]>>;

/** What a command answers. */
export type Answer<Name extends CommandName> = Awaited<ReturnType<StoreCommands[Name]>>;

/** The commands that touch no other key than their first argument. */
const ALONE: ReadonlySet<CommandName> = new Set<CommandName>([
  "get",
  "hgetall",
  "hmget",
  "zcard",
  "zrangebylex",
  "xrevrange",
  "ugClaim",
  "ugClaimRevocation",
  "ugAdopt",
  "ugList",
  "ugUnlist",
  "ugLookUp",
  "ugListGroups",
  "ugClaimToken",
  "ugForgetToken",
  "ugResolveAt",
  "ugRecord",
  "ugWriteApiToken",
  "ugChangeApiToken",
  "ugEndApiToken",
  "ugReadApiToken",
  "ugNoteApiTokenUse",
  "ugCount",
]);

/**
 * Sends a command.
 *
 * @param asking whether the slot of its key is on its way to this node of a Cluster (ASK). Redis looks there for the keys
 *   that a command names, but a further one that has not arrived yet is like one that is nowhere: a group would be
 *   created a second time, or a token not found. So only what touches one key is done; for all else the slot has to
 *   arrive first.
 * @throws NotSent
 */
export function send<Name extends CommandName>(
  redis: ScriptedRedis,
  name: Name,
  args: CommandArgs<Name>,
  asking: boolean,
): Promise<Answer<Name>> {
  if (asking) {
    if (!ALONE.has(name)) return Promise.reject(new NotSent("TRYAGAIN the keys are on their way to another node"));
    // If ASKING fails, so does the command that follows it.
    redis.asking().catch(() => {});
  }
  const command = redis[name] as unknown as (...args: CommandArgs<Name>) => Promise<Answer<Name>>;
  return command.call(redis, ...args);
}
