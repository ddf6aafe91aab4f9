import type { StoreClient } from "./client.ts";
import { infoField } from "./requirements.ts";

/** The memory of a Redis node. */
export interface NodeMemory {
  /** The name of the node in the log. */
  readonly name: string;
  /** The bytes that Redis counts against its limit. */
  readonly usedBytes: number;
  /** The limit, in bytes: `maxmemory`, or the memory of the machine if `maxmemory` is 0. */
  readonly maxBytes: number;
}

/** Reads the memory of every node. Leaves out nodes that do not answer, and all nodes if the user may not send INFO. */
export async function memoryOf(client: StoreClient): Promise<readonly NodeMemory[]> {
  try {
    const infos = await client.each("info", async (redis, name) => ({ name, info: await redis.info("memory") }));
    return infos.map(({ name, info }) => {
      const bytes = (field: string) => Number(infoField(info, field) ?? 0);
      return {
        name,
        // Buffers for replicas and for the AOF do not count against the limit.
        usedBytes: bytes("used_memory") - bytes("mem_not_counted_for_evict"),
        maxBytes: bytes("maxmemory") || bytes("total_system_memory"),
      };
    });
  } catch {
    return [];
  }
}
