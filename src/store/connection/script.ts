import { hash } from "node:crypto";
import apiTokensPart from "../scripts/parts/api-tokens.lua" with { type: "text" };
import environmentPart from "../scripts/parts/environment.lua" with { type: "text" };
import targetPart from "../scripts/parts/target.lua" with { type: "text" };
import tokensPart from "../scripts/parts/tokens.lua" with { type: "text" };
import webhooksPart from "../scripts/parts/webhooks.lua" with { type: "text" };

/*
 * Scripts take and return flat arrays of strings. The first element of the result is the outcome.
 *
 * Every change has a deadline, in milliseconds since 1970 by Redis' clock. A change may wait in a socket, or in a stopped Redis,
 * until long after its call has failed. So after the deadline it changes nothing and returns `late`. The first element of its
 * result is `done` if the change is committed, and then replicas have to confirm it. The second element is Redis' clock.
 *
 * Redis refuses a change before it starts if its memory is full (`#!lua` without `allow-oom`). A script fails at the first key of
 * another type and, while its slot is migrating, at the first missing key. So it reads the keys that it writes before its first
 * write. In `parts/environment.lua`, it also reads a key that never exists: while the slot is migrating, it fails at that key.
 */

/** A script in Lua, and the names of its arguments. */
export interface Script<Key extends string = string, Arg extends string = string> {
  /** The SHA-1 of its text. EVALSHA runs it by this name. */
  readonly name: string;
  readonly lua: string;
  /** The keys that are known in advance. The first one selects the node. Each is a local variable of the script. */
  readonly keys: readonly Key[];
  /** The other arguments. Each is a local variable of the script. */
  readonly args: readonly Arg[];
  /** Whether it has a deadline. */
  readonly isChange: boolean;
  /** Whether it uses only its first key. */
  readonly singleKey: boolean;
}

/** The values of the keys and arguments. True becomes `1`; false and undefined become an empty string. */
export type ScriptArgs<Key extends string = string, Arg extends string = string> = {
  readonly [name in Key]: string;
} & {
  readonly [name in Arg]: string | number | boolean | undefined;
} & {
  /** Further arguments without names. They follow the named arguments. */
  readonly extraArgs?: readonly string[];
};

/**
 * `read`: writes nothing. `change`: writes, with a deadline. `count`: writes temporary values, without a deadline.
 */
type ScriptKind = "read" | "change" | "count";

/** The words of a text. */
export type Words<Text extends string> = Text extends `${infer First} ${infer Rest}`
  ? First | Words<Rest>
  : Text extends ""
    ? never
    : Text;

/** Keys and arguments are names, separated by spaces. */
export interface ScriptDefinition<Keys extends string, Args extends string> {
  readonly keys: Keys;
  /** Default: none. */
  readonly args?: Args;
  /** Whether it uses only its first key. Default: true for one key. Set false if the script builds the names of further keys. */
  readonly singleKey?: boolean;
  /** Whether Redis runs it with full memory, because it revokes or deletes. Default: false. */
  readonly allowOom?: boolean;
}

/** Reads Redis' clock. It uses floats, because the integers of the embedded store have 32 bits. */
const CLOCK = `local time = redis.call('TIME')
local micros = (time[1] + 0.0) * 1000000.0 + time[2]
local now = math.floor(micros / 1000)
local nowText = string.format('%.0f', now)
`;

/** The first lines of every change. */
const UNLESS_LATE = "if now > tonumber(ARGV[1]) then return {'late', nowText} end\n";

/** Lua 5.1 and 5.3 have different names for this function. */
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
 * Assembles a script from its text, the included parts, and its keys and arguments as local variables.
 *
 * @param text may also use `extra`, the index in ARGV of the first further argument; `unpack`; and Redis' clock as `micros`,
 *   `now` and `nowText`
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

/** The arguments of EVAL: the number of keys, the keys, and the other arguments. @param deadline of a change */
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
