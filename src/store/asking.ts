import type { ScriptedRedis } from "./connection.ts";
import { NotSent, PLAIN_COMMANDS, type StoreCommands } from "./nodes.ts";
import { SCRIPTS } from "./scripts.ts";

/** The commands that touch no other key than their first argument. */
const ALONE: ReadonlySet<string> = new Set<keyof StoreCommands>([
  ...PLAIN_COMMANDS,
  "ugClaim",
  "ugAdopt",
  "ugList",
  "ugLookUp",
  "ugClaimToken",
  "ugForgetToken",
  "ugResolveAt",
  "ugRecord",
  "ugNoteApiTokenUse",
  "ugCount",
]);

type Command = (key: string, ...args: (string | number)[]) => Promise<unknown>;

/**
 * The commands for a node of a Cluster to which a slot is on its way (ASK). Redis looks there for the keys that a script
 * names, but a further one that has not arrived yet is like one that is nowhere: a group would be created a second time,
 * or a token not found. So only what touches one key is done; for all else the slot has to arrive first.
 */
export function askingCommands(redis: ScriptedRedis): StoreCommands {
  const commands: Record<string, Command> = {};
  for (const name of [...PLAIN_COMMANDS, ...Object.keys(SCRIPTS)] as (keyof StoreCommands)[]) {
    const command = (...args: Parameters<Command>) => (redis[name] as Command)(...args);
    commands[name] = (key, ...args) => {
      if (!ALONE.has(name)) return Promise.reject(new NotSent("TRYAGAIN the keys are on their way to another node"));
      // If ASKING fails, so does the command that follows it.
      redis.asking().catch(() => {});
      return command(key, ...args);
    };
  }
  return commands as unknown as StoreCommands;
}
