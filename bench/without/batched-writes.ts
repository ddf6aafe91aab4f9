import type { Redis } from "ioredis";

/* ioredis with its own auto-pipelining. */

export const batchWrites = () => (redis: Redis) => {
  redis.options.enableAutoPipelining = true;
};
