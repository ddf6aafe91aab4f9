import { setTimeout as pause } from "node:timers/promises";
import {
  ClusterNodes,
  isRefusal,
  type NodeOptions,
  nameOf,
  openNode,
  type RedisSecrets,
  type RedisTarget,
  readRedisUrl,
  refusalWordOf,
  Sentinels,
  StoreMisconfigured,
  type StoreNodes,
  singleNode,
  wrongScheme,
} from "@user-group-service/redis";
import { MAX_CALLS } from "../../capacity.ts";
import { StoreUnavailable } from "../../domain/errors.ts";
import { StoreClient, type StoreClientOptions } from "./client.ts";
import { requireUsable } from "./requirements.ts";

/** How to connect to Redis. */
export interface OpenOptions
  extends StoreClientOptions,
    Partial<Pick<NodeOptions, "minReplicas" | "onError" | "onReady">>,
    Partial<Readonly<RedisSecrets>> {
  /** How long to try to connect, in milliseconds; default 10,000. Of a Cluster, some shards may be away after half of it. */
  readonly connectMs?: number;
}

/** How often it is looked whether Redis is ready, in milliseconds. */
const LOOK_MS = 5;

/**
 * Connects to Redis, in whichever shape its URL names, and waits until it is ready: of a Cluster until every shard is, or
 * for half of the time, and then until one is.
 *
 * @param url of one of the forms that `readRedisUrl` takes
 * @throws StoreUnavailable when it is not ready in time; StoreMisconfigured at once when it will never be
 */
export async function openRedis(url: string, options: OpenOptions): Promise<StoreClient> {
  const read = readRedisUrl(url, options);
  if ("faults" in read) throw new StoreMisconfigured(read.faults.join("; "));
  let lastError: Error | undefined;
  let isStarting = true;
  let isCheckingScheme = false;
  /** Reports an error of the start, unless the scheme of the URL causes it. */
  const reportAtStart = async (error: Error) => {
    if (isCheckingScheme) return;
    isCheckingScheme = true;
    const fault = await wrongScheme(read.target);
    isCheckingScheme = false;
    if (fault) lastError = fault;
    else options.onError?.(error);
  };
  const nodes = openNodes(read.target, {
    ...options,
    requireUsable,
    // Half of the calls that a worker takes.
    maxWaiting: MAX_CALLS / 2,
    onError: (error) => {
      if (!isStarting) return options.onError?.(error);
      // The caller who waits reports the error that ends the start. Errors that follow from it are not reported.
      if (lastError instanceof StoreMisconfigured) return;
      lastError = error;
      if (!(error instanceof StoreMisconfigured)) void reportAtStart(error);
    },
    onReady: () => options.onReady?.(),
  });
  const { connectMs = 10_000 } = options;
  const began = performance.now();
  // All shards of a Cluster have half of the time. From then on those that are there will do.
  const isOpen = (waitedMs: number) =>
    nodes.isReady() || (waitedMs > connectMs / 2 && nodes.masters().some((node) => node.isReady()));
  for (let waitedMs = 0; ; waitedMs = performance.now() - began) {
    const fault = lastError instanceof StoreMisconfigured ? lastError : undefined;
    if (fault === undefined && isOpen(waitedMs)) break;
    if (fault !== undefined || waitedMs > connectMs) {
      nodes.close();
      throw fault ?? new StoreUnavailable(lastError ?? new Error("no answer"));
    }
    await pause(LOOK_MS);
  }
  isStarting = false;
  const { username, secrets } = read.target;
  return new StoreClient(nodes, {
    ...options,
    changeSecrets: async (changed) => {
      if (changed.password !== undefined) await requireAccepted(nodes, username, changed.password);
      Object.assign(secrets, changed);
    },
  });
}

/**
 * Requires that Redis accepts a password on every connection that is ready; a refusal leaves a connection as it is. Nodes
 * without a ready connection are left out: perhaps they refuse the password before. A silent connection is ended soon, and
 * the wait for it.
 *
 * @throws StoreMisconfigured when it does not; StoreUnavailable when it does not say
 */
async function requireAccepted(nodes: StoreNodes, username: string | undefined, password: string): Promise<void> {
  const ready = nodes.masters().filter((node) => node.isReady());
  const asked = ready.map(({ reads: { redis } }) =>
    username === undefined ? redis.auth(password) : redis.auth(username, password),
  );
  for (const answer of await Promise.allSettled(asked)) {
    if (answer.status === "fulfilled") continue;
    if (!isRefusal(answer.reason)) throw new StoreUnavailable(new Error("no answer to the new password"));
    if (refusalWordOf(answer.reason) === "WRONGPASS")
      throw new StoreMisconfigured("Redis does not accept the password (WRONGPASS)");
  }
}

function openNodes(target: RedisTarget, options: NodeOptions): StoreNodes {
  switch (target.shape) {
    case "node": {
      const [to] = target.hosts;
      return singleNode(openNode(nameOf(to), { ...target, to }, options));
    }
    case "sentinel": {
      const sentinels = new Sentinels(target, options.onError);
      return singleNode(openNode(target.master, { ...target, to: sentinels }, options), () => sentinels.close());
    }
    case "cluster":
      return new ClusterNodes(target, options);
  }
}
