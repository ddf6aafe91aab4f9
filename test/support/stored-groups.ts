import type { ScriptedRedis } from "@user-group-service/redis";
import { type Environment, partitionOf } from "../../src/domain/environment.ts";
import { FIELD, PIECES } from "../../src/store/groups/fields.ts";
import { KEY, partitionPrefix } from "../../src/store/keys.ts";
import { contents } from "./contract/context.ts";

type Fields = Readonly<Record<string, string>>;

/**
 * Looks at what is stored of the groups of an environment: each has one current token, is found by it and listed; and what
 * leads anywhere within a partition leads to a group that knows of it.
 *
 * @returns what is wrong
 */
export async function faultsOfStored(
  redis: ScriptedRedis,
  environment: Pick<Environment, "name" | "tag" | "partitions">,
): Promise<string[]> {
  const all = await contents(redis, { ...environment, number: 1 });
  const keys = Object.keys(all);
  const faults: string[] = [];
  const groups = new Map<string, { readonly prefix: string; readonly record: Fields }>();
  for (const key of keys) {
    const at = key.indexOf(":group:");
    if (at < 0) continue;
    groups.set(key.slice(at + 7), { prefix: key.slice(0, at + 1), record: all[key] as Fields });
  }
  const holders = new Map<string, string>();
  for (const [id, { prefix, record }] of groups) {
    const digest = record[FIELD.digest] ?? "";
    const [partition = "", time] = record[FIELD.entry]?.split(":") ?? [];
    const isForeign = time !== undefined;
    const isWhole = record[`${PIECES.foreignToken}0`] !== undefined;
    if (isWhole === (record[FIELD.token] !== undefined) || (isWhole && !isForeign))
      faults.push(`${id} has not one current token`);
    if (holders.has(digest)) faults.push(`${id} has the token of ${holders.get(digest)}`);
    holders.set(digest, id);
    if (prefix !== prefixOf(environment, id)) faults.push(`${id} is in another partition`);
    const entryKey = partitionPrefix(environment, Number(partition)) + KEY.foreign + digest;
    const found = isForeign
      ? holderOf(all[entryKey])
      : (all[prefix + KEY.tokens] as Fields | undefined)?.[digest.slice(0, 14)];
    if (found !== id) faults.push(`${id} is not found by its token`);
  }
  for (const [id, { record }] of groups) {
    const holder = holders.get(record[FIELD.graceDigest] ?? "");
    const isGraced = Number(record[FIELD.graceUntil] ?? 0) > Date.now();
    if (isGraced && holder !== undefined) faults.push(`${id} has the token of ${holder} on its grace`);
  }
  for (const key of keys) {
    const prefix = key.slice(0, key.indexOf("}:") + 2);
    const value = all[key];
    if (key === prefix + KEY.tokens) {
      for (const [start, id] of Object.entries(value as Fields)) {
        if (!groups.get(id)?.record[FIELD.digest]?.startsWith(start))
          faults.push(`an index leads to ${id} for nothing`);
      }
    } else if (key.startsWith(`${prefix}grace:`)) {
      const digest = key.slice(`${prefix}grace:`.length);
      if (groups.get(String(value))?.record[FIELD.graceDigest] !== digest) faults.push(`a grace of ${value} is none`);
    } else if (key === prefix + KEY.ids) {
      const ids = (value as string[]).filter((_, i) => i % 2 === 0);
      const own = [...groups].filter(([, group]) => group.prefix === prefix).map(([id]) => id);
      if (ids.sort().join("\n") !== own.sort().join("\n"))
        faults.push(`${key} does not list the groups that there are`);
    }
  }
  return faults;
}

/** The id in the entry of a foreign token. */
function holderOf(entry: unknown): string {
  const text = String(entry ?? "");
  return text.slice(text.indexOf(":") + 1);
}

function prefixOf(environment: Pick<Environment, "name" | "tag" | "partitions">, text: string): string {
  return partitionPrefix(environment, partitionOf({ ...environment, number: 1 }, text));
}
