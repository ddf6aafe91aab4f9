import { crc16xmodem } from "crc";

/** The slot of a Redis Cluster that a key is in. */
export function slotOf(key: string): number {
  const open = key.indexOf("{");
  const close = open < 0 ? -1 : key.indexOf("}", open + 1);
  return crc16xmodem(close > open + 1 ? key.slice(open + 1, close) : key) & 0x3fff;
}
