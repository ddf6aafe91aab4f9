import { readFileSync } from "node:fs";
import { ROOT } from "@user-group-service/testing/process";
import { ask, type TestRedis } from "./redis.ts";

/** Reads docs/operations/redis.md. Returns the ACL rules of the user in REDIS_URL, as arguments of ACL SETUSER. */
export function documentedRights(): string[] {
  const text = readFileSync(`${ROOT}/docs/operations/redis.md`, "utf8").replaceAll("\\\n", " ");
  const [, rights] = /ACL SETUSER user-groups on '>PASSWORD' (.*)/.exec(text) ?? [];
  if (rights === undefined) throw new Error("docs/operations/redis.md has no ACL SETUSER");
  return rights
    .trim()
    .split(/\s+/)
    .map((right) => right.replaceAll("'", ""));
}

/** Creates a Redis user with exactly these ACL rules. @returns the URL with the credentials of this user */
export async function withRights(redis: TestRedis, rights: readonly string[]): Promise<string> {
  await ask(redis, "ACL", "SETUSER", "user-groups", "reset", "on", ">PASSWORD", ...rights);
  return redis.url.replace("://", "://user-groups:PASSWORD@");
}
