/** The label that lets two environments of one name hold the same ids. */
export type EnvironmentTag = "Customer" | "Testing";

/** An isolated namespace of user groups. */
export interface Environment {
  /** 1 to 64 letters, digits, `.`, `_` or `-`. */
  readonly name: string;
  /** Undefined: untagged. */
  readonly tag: EnvironmentTag | undefined;
  /** How many partitions its groups are spread over; fixed when it is created. */
  readonly partitions: number;
  /** From 1 to 2^20 - 1 and its own: what its team ids begin with. Fixed when it is created. */
  readonly number: number;
}

/** What names an environment, without what is stored of it. */
export type EnvironmentName = Pick<Environment, "name" | "tag">;

/** Partitions of an environment whose creator does not choose. */
export const DEFAULT_PARTITIONS = 64;

/** The most partitions that two base62 characters can number. */
export const MAX_PARTITIONS = 62 * 62;

const NAME = /^[A-Za-z0-9._-]{1,64}$/;

/** `ENV`, `ENV/Customer` or `ENV/Testing` as an environment name; undefined for anything else. */
export function parseEnvironmentName(text: string): EnvironmentName | undefined {
  const slash = text.indexOf("/");
  const name = slash < 0 ? text : text.slice(0, slash);
  const tag = slash < 0 ? undefined : text.slice(slash + 1);
  if (!NAME.test(name)) return undefined;
  if (tag !== undefined && tag !== "Customer" && tag !== "Testing") return undefined;
  return { name, tag };
}

/** The environment as `ENV/TAG`, with nothing behind the slash when it is untagged. */
export function environmentPath(environment: EnvironmentName): string {
  return `${environment.name}/${environment.tag ?? ""}`;
}
