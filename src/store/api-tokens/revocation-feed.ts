import { setTimeout as pause } from "node:timers/promises";
import type { Redis } from "ioredis";
import type { RevocationListener } from "../../domain/api-token.ts";
import type { Environment } from "../../domain/environment.ts";
import type { StoreClient } from "../connection/client.ts";
import { isRefusal } from "../connection/errors.ts";
import type { StoreNode, StoreNodes } from "../connection/nodes.ts";
import { dropWhenSilent } from "../connection/sockets.ts";
import { newsOf, REVOKED_CHANNEL } from "../keys.ts";

/** How long until another subscription is tried when one is lost, in milliseconds. */
const RETRY_MS = 100;

/** The same when Redis refuses it, which takes an operator to change. */
const REFUSED_MS = 10_000;

/** How often the connection is checked, and whether its node still has keys, in milliseconds. */
const CHECK_MS = 5000;

/** How long Redis may take to answer that check, in milliseconds. */
const SILENCE_MS = 1000;

/** The listener of a feed. */
export interface FeedListener extends RevocationListener {
  /** The signing keys of the environment have changed. */
  signingKeysChanged(environment: Environment): void;
  /** Redis does not let its user subscribe or publish. Nothing is reported until `missed` is called. */
  refused(error: Error): void;
}

/**
 * Tells of the API tokens that any worker revokes, by a connection of its own that subscribes to their channel at any
 * node that has keys. What was published while there was no subscription is lost, so whenever there is one again, any
 * token may have been revoked.
 *
 * @returns what ends it
 */
export function followRevocations(client: StoreClient, listener: FeedListener): () => void {
  const closed = new AbortController();
  const { signal } = closed;
  let isRefused = false;

  /** Subscribes at a node until that ends. @returns whether Redis refused it */
  const follow = async (node: StoreNode): Promise<boolean> => {
    const redis = node.reads.redis.duplicate({
      lazyConnect: true,
      autoResubscribe: false,
      // It may subscribe to a Redis that is still loading.
      enableReadyCheck: false,
      retryStrategy: () => null,
      reconnectOnError: null,
    });
    dropWhenSilent(redis, SILENCE_MS);
    // The other connections report what is wrong with Redis.
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
      // An empty message, which concerns nothing: scripts ignore it when Redis refuses to publish.
      await node.reads.redis.publish(REVOKED_CHANNEL, "");
      isRefused = false;
      listener.missed();
      await keep(redis, node, client.nodes);
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
      // Any of them, so that the workers spread over the nodes.
      const node = ready[Math.floor(Math.random() * ready.length)];
      const wasRefused = node !== undefined && (await follow(node));
      // Ends early when it is closed.
      await pause(wasRefused ? REFUSED_MS : RETRY_MS, undefined, { signal, ref: false }).catch(() => {});
    }
  };

  void run();
  return () => closed.abort();
}

/** Returns when a subscription is over, or its node is no longer the one to subscribe at. Rejects when it fails. */
async function keep(redis: Redis, node: StoreNode, nodes: StoreNodes): Promise<void> {
  const over = new AbortController();
  redis.once("close", () => over.abort());
  if (redis.status !== "ready") return;
  const losses = node.reads.losses;
  while (!over.signal.aborted) {
    await pause(CHECK_MS, undefined, { signal: over.signal, ref: false }).catch(() => {});
    // After a failover a name may lead to another Redis than it did.
    const isMoved = node.reads.losses !== losses || !nodes.masters().includes(node);
    if (isMoved || over.signal.aborted) return;
    // The check: subscribing again changes nothing, and has to be answered.
    await redis.subscribe(REVOKED_CHANNEL);
  }
}
