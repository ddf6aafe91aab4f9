import { crc16xmodem } from "crc";

/** The number of slots of a Redis Cluster. */
export const SLOTS = 16_384;

/** The slot that a key belongs to (https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/). */
export function slotOf(key: string): number {
  const open = key.indexOf("{");
  const close = open < 0 ? -1 : key.indexOf("}", open + 1);
  return crc16xmodem(close > open + 1 ? key.slice(open + 1, close) : key) % SLOTS;
}
