import type { ScriptedRedis } from "../../src/store/connection.ts";
import type { GroupRecord, recordFromFlat as RecordFromFlat } from "../../src/store/record.ts";

/* Reading a group takes the object that ioredis makes of HGETALL. */

export const readHashesFlat = () => (redis: ScriptedRedis) => {
  redis.flatHash = (key) =>
    redis.hgetall(key).then((record) => {
      // What asks for it looks whether it is empty.
      for (const _ in record) return record as unknown as string[];
      return [];
    });
};

export const recordFromFlat =
  (original: typeof RecordFromFlat): typeof RecordFromFlat =>
  (flat, start) =>
    Array.isArray(flat) ? original(flat, start) : (flat as unknown as GroupRecord);
