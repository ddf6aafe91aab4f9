/** The tag that distinguishes two environments with the same name. */
export type EnvironmentTag = "Customer" | "Testing";

/** An isolated namespace of user groups. */
export interface Environment {
  /** 1 to 64 letters, digits, `.`, `_` or `-`, with no dot in front, which a URL might lose. */
  readonly name: string;
  /** Undefined for an untagged environment. */
  readonly tag: EnvironmentTag | undefined;
  /** From 1 to 2^20 - 1: the high bits of its team ids. No other environment ever has it, not even a later one of its name. */
  readonly number: number;
}

/** The name and tag of an environment. */
export type EnvironmentName = Pick<Environment, "name" | "tag">;

/** An environment as it is listed. */
export interface ListedEnvironment extends Environment {
  /** In milliseconds since 1970. */
  readonly createTime: number;
  /** Since when it is being deleted, in milliseconds since 1970; undefined: it is not. */
  readonly deleteTime: number | undefined;
}

const NAME = /^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$/;

/** Parses `ENV`, `ENV/Customer` or `ENV/Testing`; undefined for anything else. */
export function parseEnvironmentName(text: string): EnvironmentName | undefined {
  const slash = text.indexOf("/");
  const name = slash < 0 ? text : text.slice(0, slash);
  const tag = slash < 0 ? undefined : text.slice(slash + 1);
  if (!NAME.test(name)) return undefined;
  if (tag !== undefined && tag !== "Customer" && tag !== "Testing") return undefined;
  return { name, tag };
}

/** Formats what `parseEnvironmentName` parses: an environment as people read it. */
export function formatEnvironmentName({ name, tag }: EnvironmentName): string {
  return tag === undefined ? name : `${name}/${tag}`;
}

/** Formats an environment as `ENV/TAG`; nothing follows the slash when it is untagged. */
export function environmentPath(environment: EnvironmentName): string {
  return `${environment.name}/${environment.tag ?? ""}`;
}

/** Parses what `environmentPath` formats; undefined for anything else. */
export function parseEnvironmentPath(path: string): EnvironmentName | undefined {
  const name = parseEnvironmentName(path.endsWith("/") ? path.slice(0, -1) : path);
  return name && environmentPath(name) === path ? name : undefined;
}

/** Whether a text may be the key of a page of environments: a path, a space, and the number. */
export function isEnvironmentKey(text: string): boolean {
  const [path = "", number = "", ...more] = text.split(" ");
  return parseEnvironmentPath(path) !== undefined && /^\d{1,7}$/.test(number) && more.length === 0;
}

/** The number of environment numbers; 0 is never used. */
export const ENVIRONMENT_NUMBERS = 2 ** 20;

/**
 * The number of team ids of an environment, for all groups ever created in it: 8.6 billion (8.6e9). A team id has the
 * environment's number in its high bits, and stays below 2^53.
 */
export const TEAM_IDS = 2 ** 33;
