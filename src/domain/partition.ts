import { crc16xmodem } from "crc";
import type { Environment } from "./environment.ts";

/** The partition that a user group lives in: CRC-16/XMODEM of its id, as Redis Cluster counts slots, modulo the environment's partitions. */
export function partitionOf(environment: Environment, providedId: string): number {
  return crc16xmodem(providedId) % environment.partitions;
}
