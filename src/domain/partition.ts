import { crc16xmodem } from "crc";
import type { Environment } from "./environment.ts";

/**
 * The partition of a user group: CRC-16/XMODEM of its id, the function that Redis Cluster uses for slots, modulo the
 * number of partitions.
 */
export function partitionOf(environment: Environment, providedId: string): number {
  return crc16xmodem(providedId) % environment.partitions;
}
