import { setTimeout as pause } from "node:timers/promises";
import { StoreUnavailable } from "../../src/domain/errors.ts";
import type { StoreClient } from "../../src/store/connection/client.ts";
import { openRedis as open, type OpenOptions as StoreOptions } from "../../src/store/connection/open.ts";
import { readRedisUrl } from "../../src/store/connection/url.ts";

export interface OpenOptions extends StoreOptions {
  readonly password?: string;
  readonly sentinelPassword?: string;
  readonly ca?: string;
  /**
   * Timeout in milliseconds. Default 10,000. For half of this time, `openRedis` waits for connections to all shards of
   * a Cluster. After that, connections to some of the shards suffice.
   */
  readonly connectMs?: number;
}

/**
 * Connects to Redis, and waits until the connection can be used.
 *
 * @throws StoreUnavailable if the connection cannot be used after the timeout. The error contains the last failure
 * @throws StoreMisconfigured
 */
export async function openRedis(
  url: string,
  { connectMs = 10_000, password, sentinelPassword, ca, ...options }: OpenOptions,
): Promise<StoreClient> {
  let last = new Error("no answer");
  const onError = (error: Error) => {
    last = error;
    options.onError?.(error);
  };
  const { target, faults = [] } = readRedisUrl(url, { password, sentinelPassword, ca });
  if (!target) throw new Error(faults.join("; "));
  const { client, opened } = open(target, { shardsMs: connectMs / 2, ...options, onError });
  const late = pause(connectMs, undefined, { ref: false }).then(() => Promise.reject(new StoreUnavailable(last)));
  try {
    await Promise.race([opened, late]);
    return client;
  } catch (error) {
    client.close();
    throw error;
  }
}
