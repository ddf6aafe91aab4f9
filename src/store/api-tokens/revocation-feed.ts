import { setTimeout as pause } from "node:timers/promises";
import type { Redis } from "ioredis";
import type { RevocationListener } from "../../domain/api-token.ts";
import type { Environment } from "../../domain/environment.ts";
import type { StoreClient } from "../connection/client.ts";
import { isRefusal } from "../connection/errors.ts";
import type { StoreNode, StoreNodes } from "../connection/nodes.ts";
import { dropWhenSilent } from "../connection/sockets.ts";
import { newsOf, REVOKED_CHANNEL } from "../keys.ts";

const RETRY_MS = 100;

/**
 * If the Redis user lacks the right to subscribe or publish, the service tries again after this time, in milliseconds.
 */
const REFUSED_MS = 10_000;

const CHECK_MS = 5000;

const SILENCE_MS = 1000;

export interface FeedListener extends RevocationListener {
  signingKeysChanged(environment: Environment): void;
  /**
   * Called if the Redis user lacks the right to subscribe or publish. Until `missed` is called, no revocations are
   * reported.
   */
  refused(error: Error): void;
}

/**
 * Subscribes to `REVOKED_CHANNEL`, and reports the messages of all workers to the listener. A separate connection
 * subscribes at a random primary. Redis does not store messages, so messages between two subscriptions are lost. Calls
 * `missed` after each new subscription.
 *
 * @returns a function that ends the subscription
 */
export function followRevocations(client: StoreClient, listener: FeedListener): () => void {
  const closed = new AbortController();
  const { signal } = closed;
  let isRefused = false;

  /** Subscribes at a node until the connection closes, and returns whether Redis refused the subscription. */
  const follow = async (node: StoreNode): Promise<boolean> => {
    const redis = node.reads.redis.duplicate({
      lazyConnect: true,
      autoResubscribe: false,
      // Do not wait until Redis has loaded its data, because Redis accepts subscriptions during this time.
      enableReadyCheck: false,
      retryStrategy: () => null,
      reconnectOnError: null,
    });
    dropWhenSilent(redis, SILENCE_MS);
    // Ignore errors of this connection. If Redis fails, the other connections to this Redis report the error.
    redis.on("error", () => {});
    redis.on("message", (_channel, message) => {
      const { news, environment } = newsOf(message) ?? {};
      if (!environment) listener.revoked(message);
      else if (news === "deleted") listener.environmentDeleted(environment);
      else listener.signingKeysChanged(environment);
    });
    const end = () => redis.disconnect();
    signal.addEventListener("abort", end, { once: true });
    try {
      await redis.connect();
      await redis.subscribe(REVOKED_CHANNEL);
      // Check the right to publish, because scripts ignore an error of PUBLISH. An empty message has no effect.
      await node.reads.redis.publish(REVOKED_CHANNEL, "");
      isRefused = false;
      listener.missed();
      await waitForLoss(redis, node, client.nodes);
      return false;
    } catch (error) {
      if (!isRefusal(error)) return false;
      if (!isRefused) listener.refused(error);
      isRefused = true;
      return true;
    } finally {
      signal.removeEventListener("abort", end);
      redis.disconnect();
    }
  };

  const run = async (): Promise<void> => {
    while (!signal.aborted) {
      const ready = client.nodes.masters().filter((node) => node.isReady());
      const node = ready[Math.floor(Math.random() * ready.length)];
      const wasRefused = node !== undefined && (await follow(node));
      await pause(wasRefused ? REFUSED_MS : RETRY_MS, undefined, { signal, ref: false }).catch(() => {});
    }
  };

  void run();
  return () => closed.abort();
}

/**
 * Waits until the connection is closed, or until the node of the connection is no longer a primary. Rejects if a check
 * fails.
 */
async function waitForLoss(redis: Redis, node: StoreNode, nodes: StoreNodes): Promise<void> {
  const over = new AbortController();
  redis.once("close", () => over.abort());
  if (redis.status !== "ready") return;
  const { clock } = node.reads;
  while (!over.signal.aborted) {
    await pause(CHECK_MS, undefined, { signal: over.signal, ref: false }).catch(() => {});
    // After a failover, the name of the node may lead to another Redis.
    const isMoved = node.reads.clock !== clock || !nodes.masters().includes(node);
    if (isMoved || over.signal.aborted) return;
    // A second subscription has no effect. The answer shows that the connection still works.
    await redis.subscribe(REVOKED_CHANNEL);
  }
}
