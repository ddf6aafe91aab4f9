import { Redis, type RedisOptions } from "ioredis";
import { recordFromFlat as plainRecord } from "./flat-hash.ts";

/* ioredis with its own auto-pipelining, and the object that it makes of HGETALL. */

export const recordFromFlat = plainRecord;

export const BatchingRedis = () =>
  class extends Redis {
    constructor(url: string, options: RedisOptions) {
      super(url, { ...options, enableAutoPipelining: true });
    }

    flatHash(key: string): Promise<unknown> {
      return this.hgetall(key).then((record) => {
        for (const _ in record) return record;
        return [];
      });
    }
  };
