import type { ScriptedRedis } from "./connection.ts";
import { LISTED_FIELDS } from "./fields.ts";
import { compareIds } from "./id-order.ts";
import { groupKey } from "./keys.ts";

/**
 * `ugListGroups` for the embedded store, whose ZRANGEBYLEX orders by UTF-16 units and not by bytes: a page could skip
 * groups.
 *
 * @param stamp the clock, as scripts answer with it
 */
export function listGroups(redis: ScriptedRedis, stamp: () => string): ScriptedRedis["ugListGroups"] {
  return async (key, prefix = "", from = "", idPrefix = "", limit = "", details = "") => {
    const after = from.slice(1);
    const isIn = (id: string) => {
      const order = from === "-" ? 1 : compareIds(id, after);
      return id.startsWith(idPrefix) && (order > 0 || (order === 0 && from.startsWith("[")));
    };
    const ids = (await redis.zrange(key, 0, -1)).filter(isIn).sort(compareIds).slice(0, Number(limit));
    const answer = ["found", stamp()];
    for (const id of ids) {
      answer.push(id);
      if (details !== "1") continue;
      const record = await redis.hgetall(groupKey(prefix, id));
      answer.push(...LISTED_FIELDS.map((field) => record[field] ?? ""));
    }
    return answer;
  };
}
