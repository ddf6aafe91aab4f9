/** The tag that distinguishes two environments with the same name. */
export type EnvironmentTag = "Customer" | "Testing";

/** An isolated namespace of user groups. */
export interface Environment {
  /**
   * 1 to 64 letters, digits, `.`, `_` or `-`. The first character is not a dot, because URL parsers remove the path
   * segments `.` and `..`.
   */
  readonly name: string;
  readonly tag: EnvironmentTag | undefined;
  /**
   * The number, from 1 to 2^20 - 1. Unique among all environments, including deleted environments. The team ids of the
   * environment contain this number in their high bits.
   */
  readonly number: number;
}

export type EnvironmentName = Pick<Environment, "name" | "tag">;

export interface ListedEnvironment extends Environment {
  /** In milliseconds since 1970. */
  readonly createTime: number;
  /** The time at which the deletion started, in milliseconds since 1970. Undefined before the deletion. */
  readonly deleteTime: number | undefined;
}

const NAME = /^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$/;

/** Parses `ENV`, `ENV/Customer` or `ENV/Testing`. Returns undefined for any other text. */
export function parseEnvironmentName(text: string): EnvironmentName | undefined {
  const [name = "", tag, ...others] = text.split("/");
  if (!NAME.test(name) || others.length > 0) return undefined;
  return tag === undefined || tag === "Customer" || tag === "Testing" ? { name, tag } : undefined;
}

/** Formats an environment as `ENV/TAG`, or as `ENV` if it has no tag. `parseEnvironmentName` parses the result. */
export function formatEnvironmentName({ name, tag }: EnvironmentName): string {
  return tag === undefined ? name : `${name}/${tag}`;
}

/** Formats an environment as `ENV/TAG`, or as `ENV/` if it has no tag. */
export function environmentPath(environment: EnvironmentName): string {
  return `${environment.name}/${environment.tag ?? ""}`;
}

/** Parses the result of `environmentPath`. Returns undefined for any other text. */
export function parseEnvironmentPath(path: string): EnvironmentName | undefined {
  const name = parseEnvironmentName(path.endsWith("/") ? path.slice(0, -1) : path);
  return name && environmentPath(name) === path ? name : undefined;
}

/** Environment numbers are below this number. The number 0 is never used. */
export const ENVIRONMENT_NUMBERS = 2 ** 20;

/**
 * The number of team ids of an environment. Every new group uses a new id: ids of deleted groups are not used again.
 * The high bits of a team id contain the number of the environment. A team id is below 2^53.
 */
export const TEAM_IDS = 2 ** 33;
