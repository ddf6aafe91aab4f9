import type { Redis } from "ioredis";
import { readHashesFlat as plainHashes, recordFromFlat as plainRecord } from "./flat-hash.ts";

/* ioredis with its own auto-pipelining, and the object that it makes of HGETALL. */

export const readHashesFlat = plainHashes;

export const recordFromFlat = plainRecord;

export const batchWrites = () => (redis: Redis) => {
  redis.options.enableAutoPipelining = true;
};
