import { hash } from "node:crypto";
import apiTokensPart from "../scripts/parts/api-tokens.lua" with { type: "text" };
import environmentPart from "../scripts/parts/environment.lua" with { type: "text" };
import targetPart from "../scripts/parts/target.lua" with { type: "text" };
import tokensPart from "../scripts/parts/tokens.lua" with { type: "text" };
import webhooksPart from "../scripts/parts/webhooks.lua" with { type: "text" };

/*
 * Scripts take and return flat arrays of strings. The result of a change begins with the outcome and the time by Redis'
 * clock. If the outcome is `done`, the script has changed data. The caller may then have to wait for replicas. If the
 * deadline of the change has passed, the script changes nothing and returns `late`
 * (docs/decisions/0005-writing-commands.md).
 *
 * If Redis' memory is full, Redis refuses a change before the script starts, unless the `#!lua` line has the flag
 * `allow-oom`. A script fails at the first key with a wrong type. During a migration of the slot, a script fails at the
 * first missing key as well. A script must not fail after a write. Before its first write, a script therefore reads
 * every key that it will write. `parts/environment.lua` reads a key that never exists. During a migration, every script
 * with this part therefore fails at this key.
 */

export interface Script<Key extends string = string, Arg extends string = string> {
  /** The SHA-1 of the script's text, for EVALSHA. */
  readonly name: string;
  readonly lua: string;
  /** The keys that the caller passes. The first key selects the node. Each key is a local variable of the script. */
  readonly keys: readonly Key[];
  /** The other arguments. Each argument is a local variable of the script. */
  readonly args: readonly Arg[];
  readonly isChange: boolean;
  readonly singleKey: boolean;
}

/** The values of the keys and arguments. True becomes `1`. False and undefined become an empty text. */
export type ScriptArgs<Key extends string = string, Arg extends string = string> = {
  readonly [name in Key]: string;
} & {
  readonly [name in Arg]: string | number | boolean | undefined;
} & {
  /** Arguments that have no names. They follow the named arguments. */
  readonly extraArgs?: readonly string[];
};

/** A `change` writes only before a deadline. A `count` writes values that may be lost, and has no deadline. */
type ScriptKind = "read" | "change" | "count";

export type Words<Text extends string> = Text extends `${infer First} ${infer Rest}`
  ? First | Words<Rest>
  : Text extends ""
    ? never
    : Text;

/** The definition of a script. Keys and arguments are names, separated by spaces. */
export interface ScriptDefinition<Keys extends string, Args extends string> {
  readonly keys: Keys;
  readonly args?: Args;
  /**
   * Whether the script uses only its first key. Must be false if the script builds the names of more keys. Default:
   * true if `keys` has one name.
   */
  readonly singleKey?: boolean;
  /** Whether Redis runs the script even if Redis' memory is full. For scripts that revoke or delete. Default: false. */
  readonly allowOom?: boolean;
}

/** Reads Redis' clock into floats, because the integers of the embedded store have 32 bits. */
const CLOCK = `local time = redis.call('TIME')
local micros = (time[1] + 0.0) * 1000000.0 + time[2]
local now = math.floor(micros / 1000)
local nowText = string.format('%.0f', now)
`;

const UNLESS_LATE = "if now > tonumber(ARGV[1]) then return {'late', nowText} end\n";

/** Lua 5.1 and 5.3 have different names for the function `unpack`. */
const UNPACK = "local unpack = table.unpack or unpack\n";

/** The parts that a script includes with a line `-- include: NAME`. */
const PARTS: { readonly [name: string]: string } = {
  "api-tokens": apiTokensPart,
  environment: environmentPart,
  target: targetPart,
  tokens: tokensPart,
  webhooks: webhooksPart,
};

/**
 * Assembles a script.
 *
 * @param text the Lua text. The text can use the names of its keys and arguments, `unpack`, and Redis' clock as
 *   `micros`, `now` and `nowText`. `extra` is the index in ARGV of the first argument that has no name
 */
export function defineScript<const Keys extends string, const Args extends string = "">(
  kind: ScriptKind,
  text: string,
  { keys: keyText, args: argText, singleKey = !keyText.includes(" "), allowOom = false }: ScriptDefinition<Keys, Args>,
): Script<Words<Keys>, Words<Args>> {
  const keys = keyText.split(" ") as Words<Keys>[];
  const args = (argText ? argText.split(" ") : []) as Words<Args>[];
  const isChange = kind === "change";
  const flags = kind === "read" ? " flags=no-writes" : allowOom ? " flags=allow-oom" : "";
  const first = isChange ? 2 : 1;
  const locals = (names: readonly string[], list: string, from: number) =>
    names.length === 0 ? "" : `local ${names.join(", ")} = ${names.map((_, i) => `${list}[${from + i}]`).join(", ")}\n`;
  const variables = `${UNPACK}local extra = ${first + args.length}\n${locals(keys, "KEYS", 1)}${locals(args, "ARGV", first)}`;
  const body = text.replace(/^-- include: (.+)\n/gm, (_, part: string) => PARTS[part] as string);
  const lua = `#!lua${flags}\n${CLOCK}${isChange ? UNLESS_LATE : ""}${variables}${body}`;
  return { name: hash("sha1", lua), lua, keys, args, isChange, singleKey };
}

/** Returns the arguments of EVAL after the script: the number of keys, the keys, and the other arguments. */
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
