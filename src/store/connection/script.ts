import { hash } from "node:crypto";
import apiTokensPart from "../scripts/parts/api-tokens.lua" with { type: "text" };
import environmentPart from "../scripts/parts/environment.lua" with { type: "text" };
import targetPart from "../scripts/parts/target.lua" with { type: "text" };
import tokensPart from "../scripts/parts/tokens.lua" with { type: "text" };

/*
 * Scripts take and return flat arrays of strings and report outcomes as the first element, because the embedded store's Lua
 * knows no more.
 *
 * Every change takes a deadline, in milliseconds since 1970 by Redis' clock. It may have waited in a socket, or in a
 * Redis that was stopped, until long after its caller was told that it failed. So after the deadline it changes nothing,
 * and answers `late`. The first element of a change's answer is `done` if the change is made, and replicas have to confirm it
 * then. The second element is Redis' clock.
 *
 * Redis refuses a change before it starts if its memory is full (`#!lua` without `allow-oom`). A script fails at the first
 * key that has another type, and, while its slot is migrating, at the first missing key. So it reads the keys that it writes
 * before its first write. `parts/environment.lua` reads a key that never exists, which covers the migration.
 */

/** A script in Lua, and the names of its arguments. */
export interface Script<Key extends string = string, Arg extends string = string> {
  /** The name that it has as a command of a connection. */
  readonly name: string;
  readonly lua: string;
  /** The keys that are known beforehand; the first says where the script runs. Each is a local variable of the script. */
  readonly keys: readonly Key[];
  /** Each is a local variable of the script, too. */
  readonly args: readonly Arg[];
  /** Whether it takes a deadline. */
  readonly isChange: boolean;
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

/**
 * `read`: writes nothing. `change`: takes a deadline. `count`: writes without a deadline what does not have to last.
 */
export type ScriptKind = "read" | "change" | "count";

export interface ScriptDefinition<Key extends string, Arg extends string> {
  readonly keys: readonly Key[];
  /** Default: none. */
  readonly args?: readonly Arg[];
  /** Whether it touches no other key than its first. Default: it may. */
  readonly singleKey?: boolean;
  /** Whether Redis runs it even if its memory is full: it revokes or deletes. Default: false. */
  readonly allowOom?: boolean;
}

/** Redis' clock. Written with floats, for the embedded store's integers have 32 bits. */
const CLOCK = `local time = redis.call('TIME')
local micros = (time[1] + 0.0) * 1000000.0 + time[2]
local now = math.floor(micros / 1000)
local nowText = string.format('%.0f', now)
`;

/** The first lines of every change. */
const UNLESS_LATE = "if now > tonumber(ARGV[1]) then return {'late', nowText} end\n";

/** Lua 5.1 and 5.3 have different names for it. */
const UNPACK = "local unpack = table.unpack or unpack\n";

/** The parts that scripts include, by a line `-- include: NAME`. */
const PARTS: { readonly [name: string]: string } = {
  "api-tokens": apiTokensPart,
  environment: environmentPart,
  target: targetPart,
  tokens: tokensPart,
};

/**
 * Assembles a script: the parts that it includes, and its keys and arguments as local variables.
 *
 * @param text uses beside these: `extra`, the index in ARGV of what is behind the arguments; `unpack`; and `micros`, `now` and
 *   `nowText`, Redis' clock
 */
export function defineScript<const Key extends string, const Arg extends string = never>(
  kind: ScriptKind,
  text: string,
  { keys, args = [], singleKey = false, allowOom = false }: ScriptDefinition<Key, Arg>,
): Script<Key, Arg> {
  const isChange = kind === "change";
  const flags = kind === "read" ? " flags=no-writes" : allowOom ? " flags=allow-oom" : "";
  const first = isChange ? 2 : 1;
  const locals = (names: readonly string[], list: string, from: number) =>
    names.length === 0 ? "" : `local ${names.join(", ")} = ${names.map((_, i) => `${list}[${from + i}]`).join(", ")}\n`;
  const variables = `${UNPACK}local extra = ${first + args.length}\n${locals(keys, "KEYS", 1)}${locals(args, "ARGV", first)}`;
  const body = text.replace(/^-- include: (.+)\n/gm, (_, part: string) => PARTS[part] as string);
  const lua = `#!lua${flags}\n${CLOCK}${isChange ? UNLESS_LATE : ""}${variables}${body}`;
  return { name: `ug-${hash("sha1", lua)}`, lua, keys, args, isChange, singleKey };
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
