import { readFileSync } from "node:fs";
import { ROOT } from "@user-group-service/testing/process";
import { ask, type TestRedis } from "./redis.ts";

/** The rights that docs/operations/redis.md gives the user of REDIS_URL, as ACL SETUSER takes them. */
export function documentedRights(): string[] {
  const text = readFileSync(`${ROOT}/docs/operations/redis.md`, "utf8").replaceAll("\\\n", " ");
  const [, rights] = /ACL SETUSER user-groups on '>PASSWORD' (.*)/.exec(text) ?? [];
  if (rights === undefined) throw new Error("docs/operations/redis.md has no ACL SETUSER");
  return rights
    .trim()
    .split(/\s+/)
    .map((right) => right.replaceAll("'", ""));
}

/** Makes a user with exactly these rights; gives the URL that logs in as that user. */
export async function withRights(redis: TestRedis, rights: readonly string[]): Promise<string> {
  await ask(redis, "ACL", "SETUSER", "user-groups", "reset", "on", ">PASSWORD", ...rights);
  return redis.url.replace("://", "://user-groups:PASSWORD@");
}
