/** The tag that distinguishes two environments with the same name. */
export type EnvironmentTag = "Customer" | "Testing";

/** An isolated namespace of user groups. */
export interface Environment {
  /** 1 to 64 letters, digits, `.`, `_` or `-`. */
  readonly name: string;
  /** Undefined for an untagged environment. */
  readonly tag: EnvironmentTag | undefined;
  /** The number of partitions that its groups are spread over; fixed at creation. */
  readonly partitions: number;
  /** The unique number of the environment, from 1 to 2^20 - 1: the high bits of its team ids. Fixed at creation. */
  readonly number: number;
}

/** The name and tag of an environment. */
export type EnvironmentName = Pick<Environment, "name" | "tag">;

/** An environment to create. */
export interface NewEnvironment extends EnvironmentName {
  /** From 1 to `MAX_PARTITIONS`; default: `DEFAULT_PARTITIONS`. */
  readonly partitions?: number | undefined;
}

/** An environment as it is listed. */
export interface ListedEnvironment extends Environment {
  /** In milliseconds since 1970. */
  readonly createTime: number;
}

/** The default number of partitions. */
export const DEFAULT_PARTITIONS = 64;

/** The most partitions that two base62 characters can number. */
export const MAX_PARTITIONS = 62 * 62;

const NAME = /^[A-Za-z0-9._-]{1,64}$/;

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
