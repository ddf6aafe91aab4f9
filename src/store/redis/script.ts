/*
 * Every script takes one key, by which Redis Cluster finds the shard; the other keys it touches share its hash tag.
 * They use plain hash and string commands, take and return flat arrays of strings and report outcomes as the first
 * element, because the embedded store's Lua knows no more.
 *
 * Every change takes a deadline, in milliseconds since 1970 by Redis' clock. It may have waited in a socket, or in a
 * Redis that was stopped, until long after its caller was told that it failed. So after the deadline it changes nothing,
 * and answers `late`. The second element of every answer of a change is Redis' clock.
 *
 * Before anything is written a script has read what could be of another type, and every key but its first that it may
 * write to and that may be missing: while a slot is on its way to another node of a Cluster, Redis refuses to look for
 * a key that is missing. Its first write is one that Redis refuses when its memory is full. So what fails, fails before
 * it has changed anything.
 */

/** A script in Lua, and what its arguments are called. */
export interface Script<Name extends string = string> {
  /** The name that it has as a command of a connection. */
  readonly name: string;
  readonly lua: string;
  /** Each is a local variable of the script. */
  readonly args: readonly Name[];
  readonly isChange: boolean;
  /** Of its answers, those by which the change is made, by this call or an earlier one: replicas are waited for then. */
  readonly made: readonly (string | undefined)[];
  /** Whether it touches no other key than its first. */
  readonly isAlone: boolean;
}

/** What is given to a script: true as `1`, and what is false or undefined as an empty text. */
export type ScriptArgs<Name extends string> = {
  readonly [name in Name]: string | number | boolean | undefined;
} & {
  readonly key: string;
  /** Behind the arguments that have names. */
  readonly rest?: readonly string[];
};

/** What a script is made of. Default: no arguments; not alone; `done` means that a change is made. */
export interface ScriptDefinition<Name extends string>
  extends Partial<Pick<Script<Name>, "args" | "isAlone" | "made">> {
  /** Uses, beside its arguments: `key`; `rest`, the index in ARGV of what is behind them; `spread`; and what `CLOCK` gives. */
  readonly lua: string;
  /** Whether a change is carried out even when Redis' memory is full: it ends what may have leaked, and takes little. */
  readonly evenIfFull?: boolean;
}

/** What begins a script that Redis carries out even when its memory is full. */
const ALLOW_OOM = "#!lua flags=allow-oom\n";

/** `now` and, as text, `stamp`: Redis' clock. Written with floats, for the embedded store's integers have 32 bits. */
const CLOCK = `local time = redis.call('TIME')
local now = (time[1] + 0.0) * 1000.0 + math.floor(time[2] / 1000)
local stamp = string.format('%.0f', now)
`;

/** What begins every change. */
const UNLESS_LATE = "if now > tonumber(ARGV[1]) then return {'late', stamp} end\n";

/** Lua 5.1 and 5.3 have different names for it. */
const UNPACK = "local spread = table.unpack or unpack\n";

function withArgs(names: readonly string[], first: number, lua: string): string {
  const values = names.map((_, i) => `ARGV[${first + i}]`);
  const locals = names.length > 0 ? `local ${names.join(", ")} = ${values.join(", ")}\n` : "";
  return `${UNPACK}local key, rest = KEYS[1], ${first + names.length}\n${locals}${lua}`;
}

/** A script that changes nothing that has to last, and takes no deadline. @param clock `""`: it needs none */
export function readScript<const Name extends string = never>(
  name: string,
  { args = [], lua, isAlone = false }: ScriptDefinition<Name>,
  clock = CLOCK,
): Script<Name> {
  return { name, args, lua: clock + withArgs(args, 1, lua), isAlone, isChange: false, made: [] };
}

/** A script that makes a change. */
export function changeScript<const Name extends string = never>(
  name: string,
  { args = [], lua, isAlone = false, made = ["done"], evenIfFull = false }: ScriptDefinition<Name>,
): Script<Name> {
  const head = (evenIfFull ? ALLOW_OOM : "") + CLOCK + UNLESS_LATE;
  return { name, args, lua: head + withArgs(args, 2, lua), isAlone, isChange: true, made };
}

/** The arguments of a script as Redis takes them, the key first. @param deadline of a change */
export function argumentsOf<Name extends string>(
  { args: names, isChange }: Script<Name>,
  args: ScriptArgs<Name>,
  deadline = "",
): string[] {
  const list = isChange ? [args.key, deadline] : [args.key];
  for (const name of names) {
    const value: ScriptArgs<string>[string] = args[name];
    list.push(value === undefined || value === false ? "" : value === true ? "1" : String(value));
  }
  if (args.rest) list.push(...args.rest);
  return list;
}
