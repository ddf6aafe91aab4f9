import apiTokensPart from "../scripts/parts/api-tokens.lua" with { type: "text" };
import environmentPart from "../scripts/parts/environment.lua" with { type: "text" };
import tokensPart from "../scripts/parts/tokens.lua" with { type: "text" };

/*
 * Scripts take and return flat arrays of strings and report outcomes as the first element, because the embedded store's Lua
 * knows no more.
 *
 * Every change takes a deadline, in milliseconds since 1970 by Redis' clock. It may have waited in a socket, or in a
 * Redis that was stopped, until long after its caller was told that it failed. So after the deadline it changes nothing,
 * and answers `late`. The second element of every answer of a change is Redis' clock.
 *
 * Redis refuses a change before it starts if its memory is full (`#!lua` without `allow-oom`). A script fails at the first
 * key that has another type, and, while its slot is migrating, at the first missing key. So it reads the keys that it writes
 * before its first write. `parts/environment.lua` reads a key that never exists, which covers the migration.
 */

/** A script in Lua, and what its arguments are called. */
export interface Script<Key extends string = string, Arg extends string = string> {
  /** The name that it has as a command of a connection. */
  readonly name: string;
  readonly lua: string;
  /** The keys that are known beforehand; the first says where the script runs. Each is a local variable of the script. */
  readonly keys: readonly Key[];
  /** Each is a local variable of the script, too. */
  readonly args: readonly Arg[];
  readonly isChange: boolean;
  /** Of its answers, those by which the change is made, by this call or an earlier one: replicas are waited for then. */
  readonly made: readonly (string | undefined)[];
  /** Whether it touches no other key than its first. */
  readonly singleKey: boolean;
}

/** What is given to a script: true as `1`, and what is false or undefined as an empty text. */
export type ScriptArgs<Key extends string = string, Arg extends string = string> = {
  readonly [name in Key]: string;
} & {
  readonly [name in Arg]: string | number | boolean | undefined;
} & {
  /** Behind the arguments that have names. */
  readonly extraArgs?: readonly string[];
};

/** A script. Default: no arguments; it touches further keys; the answer `done` means that the change is committed. */
export interface ScriptDefinition<Key extends string, Arg extends string> {
  /**
   * Uses, beside its keys and arguments: `extra`, the index in ARGV of what is behind the arguments; `unpack`; and, in a
   * script that reads the clock, `micros`, `now` and `nowText`.
   */
  readonly lua: string;
  readonly keys: readonly Key[];
  readonly args?: readonly Arg[];
  readonly singleKey?: boolean;
  readonly made?: readonly string[];
  /** Whether a change is made even if Redis' memory is full: it revokes or deletes. */
  readonly allowOom?: boolean;
}

/** Redis' clock. Written with floats, for the embedded store's integers have 32 bits. */
const CLOCK = `local time = redis.call('TIME')
local micros = (time[1] + 0.0) * 1000000.0 + time[2]
local now = math.floor(micros / 1000)
local nowText = string.format('%.0f', now)
`;

/** What begins every change. */
const UNLESS_LATE = "if now > tonumber(ARGV[1]) then return {'late', nowText} end\n";

/** Lua 5.1 and 5.3 have different names for it. */
const UNPACK = "local unpack = table.unpack or unpack\n";

/** The parts that scripts include, by a line `-- include: NAME`. */
const PARTS: { readonly [name: string]: string } = {
  "api-tokens": apiTokensPart,
  environment: environmentPart,
  tokens: tokensPart,
};

function assemble(
  { keys, args = [], lua }: ScriptDefinition<string, string>,
  { head, first }: { readonly head: string; readonly first: number },
): string {
  const locals = (names: readonly string[], list: string, from: number) =>
    names.length === 0 ? "" : `local ${names.join(", ")} = ${names.map((_, i) => `${list}[${from + i}]`).join(", ")}\n`;
  const body = lua.replace(/^-- include: (.+)\n/gm, (_, name: string) => PARTS[name] as string);
  return `${head}${UNPACK}local extra = ${first + args.length}\n${locals(keys, "KEYS", 1)}${locals(args, "ARGV", first)}${body}`;
}

/**
 * A script that changes nothing.
 *
 * @param name that no other script has
 */
export function readScript<const Key extends string, const Arg extends string = never>(
  name: string,
  definition: ScriptDefinition<Key, Arg>,
): Script<Key, Arg> {
  const { keys, args = [], singleKey = false } = definition;
  const lua = assemble(definition, { head: `#!lua flags=no-writes\n${CLOCK}`, first: 1 });
  return { name: `ug-${name}`, lua, keys, args, singleKey, isChange: false, made: [] };
}

/** A script that makes a change. @param name that no other script has */
export function changeScript<const Key extends string, const Arg extends string = never>(
  name: string,
  definition: ScriptDefinition<Key, Arg>,
): Script<Key, Arg> {
  const { keys, args = [], singleKey = false, made = ["done"], allowOom = false } = definition;
  const head = `#!lua${allowOom ? " flags=allow-oom" : ""}\n${CLOCK}${UNLESS_LATE}`;
  return {
    name: `ug-${name}`,
    lua: assemble(definition, { head, first: 2 }),
    keys,
    args,
    singleKey,
    isChange: true,
    made,
  };
}

/** A script that writes what does not have to last, such as a count. It takes no deadline. */
export function countScript<const Key extends string, const Arg extends string = never>(
  name: string,
  definition: ScriptDefinition<Key, Arg>,
): Script<Key, Arg> {
  const { keys, args = [], singleKey = false } = definition;
  const lua = assemble(definition, { head: `#!lua\n${CLOCK}`, first: 1 });
  return { name: `ug-${name}`, lua, keys, args, singleKey, isChange: false, made: [] };
}

/** The arguments of a script as Redis takes them: the number of its keys, these, and the others. @param deadline of a change */
export function argumentsOf<Key extends string, Arg extends string>(
  { keys, args: names, isChange }: Script<Key, Arg>,
  args: ScriptArgs<Key, Arg>,
  deadline = "",
): string[] {
  const values: ScriptArgs<string, string> = args;
  const list = [String(keys.length)];
  for (const key of keys) list.push(values[key] as string);
  if (isChange) list.push(deadline);
  for (const name of names) {
    const value = values[name] as string | number | boolean | undefined;
    list.push(value === undefined || value === false ? "" : value === true ? "1" : String(value));
  }
  if (args.extraArgs) list.push(...args.extraArgs);
  return list;
}
