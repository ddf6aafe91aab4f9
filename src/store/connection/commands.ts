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

/** The names of all commands. */
export const PLAIN_COMMANDS = Object.keys({
  get: true,
  set: true,
  hgetall: true,
  hmget: true,
  zcard: true,
  zrangebylex: true,
  xrevrange: true,
} satisfies Record<CommandName, true>) as readonly CommandName[];

/** The arguments of a command; the first is the key. */
export type CommandArgs<Name extends CommandName = CommandName> = Readonly<Parameters<PlainCommands[Name]>>;

/** What a command answers. */
export type Answer<Name extends CommandName> = Awaited<ReturnType<PlainCommands[Name]>>;
