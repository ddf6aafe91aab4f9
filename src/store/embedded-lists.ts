import type { ScriptedRedis } from "./connection.ts";
import { compareIds } from "./id-order.ts";

/**
 * `ugListGroups` for the embedded store, whose ZRANGEBYLEX orders by UTF-16 units and not by bytes: a page could skip
 * groups.
 *
 * @param stamp the clock, as scripts answer with it
 */
export function listGroups(redis: ScriptedRedis, stamp: () => string): ScriptedRedis["ugListGroups"] {
  return async (key, from = "", idPrefix = "", limit = "") => {
    const after = from.slice(1);
    const isIn = (id: string) => {
      const order = from === "-" ? 1 : compareIds(id, after);
      return id.startsWith(idPrefix) && (order > 0 || (order === 0 && from.startsWith("[")));
    };
    const ids = (await redis.zrange(key, 0, -1)).filter(isIn).sort(compareIds).slice(0, Number(limit));
    return ["found", stamp(), ...ids];
  };
}
