/** The Redis commands that the service sends outside of scripts. The only key of a command is its first argument. */
export interface PlainCommands {
  get(key: string): Promise<string | null>;
  hgetall(key: string): Promise<Record<string, string>>;
  hmget(key: string, ...fields: string[]): Promise<(string | null)[]>;
  zcard(key: string): Promise<number>;
  zrangebylex(key: string, min: string, max: string, limit: "LIMIT", offset: number, count: number): Promise<string[]>;
  xrevrange(key: string, end: string, start: string, count: "COUNT", limit: number): Promise<[string, string[]][]>;
}

export type CommandName = keyof PlainCommands;

export type CommandArgs<Name extends CommandName = CommandName> = Readonly<Parameters<PlainCommands[Name]>>;

export type Answer<Name extends CommandName> = Awaited<ReturnType<PlainCommands[Name]>>;
