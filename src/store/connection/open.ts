import { setTimeout as pause } from "node:timers/promises";
import { StoreUnavailable } from "../../domain/errors.ts";
import { StoreClient, type StoreClientOptions } from "./client.ts";
import { ClusterNodes } from "./cluster.ts";
import type { NodeOptions } from "./connection.ts";
import { errorCodeOf, isRefusal, StoreMisconfigured } from "./errors.ts";
import { openNode, type StoreNodes, singleNode } from "./nodes.ts";
import { Sentinels } from "./options.ts";
import { wrongScheme } from "./scheme.ts";
import { nameOf, type RedisSecrets, type RedisTarget, readRedisUrl } from "./url.ts";

/** How to connect to Redis. */
export interface OpenOptions
  extends StoreClientOptions,
    Partial<Pick<NodeOptions, "minReplicas" | "checkConnection" | "onError" | "onReady">>,
    Partial<Readonly<RedisSecrets>> {
  /** After how long a Cluster may be used without the shards that are away, in milliseconds; default 5000. */
  readonly shardsMs?: number;
}

/** A store that is being opened. */
export interface Opening {
  /** Its calls fail until it is connected. */
  readonly client: StoreClient;
  /**
   * Resolves when Redis can be used: of a Cluster every shard, or after `shardsMs` at least one. It waits for Redis without
   * end. Rejects with StoreMisconfigured when Redis can never be used as it is set up.
   */
  readonly opened: Promise<void>;
}

/** How often it is looked whether Redis is ready, in milliseconds. */
const LOOK_MS = 5;

/**
 * Connects to Redis, in whichever shape its URL names.
 *
 * @param url of one of the forms that `readRedisUrl` takes
 * @throws StoreMisconfigured when it has none of them
 */
export function openRedis(url: string, options: OpenOptions): Opening {
  const read = readRedisUrl(url, options);
  if ("faults" in read) throw new StoreMisconfigured(read.faults.join("; "));
  let fault: StoreMisconfigured | undefined;
  let isStarting = true;
  let isCheckingScheme = false;
  /** Reports an error of the start, unless the scheme of the URL causes it. */
  const reportAtStart = async (error: Error) => {
    if (isCheckingScheme) return;
    isCheckingScheme = true;
    fault ??= await wrongScheme(read.target);
    isCheckingScheme = false;
    // The connection may have been made by then.
    if (!fault && isStarting) options.onError?.(error);
  };
  const nodes = openNodes(read.target, {
    ...options,
    onError: (error) => {
      if (!isStarting) options.onError?.(error);
      // The caller who waits reports the error that ends the start. Errors that follow from it are not reported.
      else if (error instanceof StoreMisconfigured) fault ??= error;
      else if (!fault) void reportAtStart(error);
    },
    onReady: () => options.onReady?.(),
  });
  const { username, secrets } = read.target;
  const client = new StoreClient(nodes, {
    ...options,
    changeSecrets: async (changed) => {
      if (changed.password !== undefined) await requireAccepted(nodes, username, changed.password);
      Object.assign(secrets, changed);
    },
  });
  const { shardsMs = 5000 } = options;
  const wait = async () => {
    const began = performance.now();
    const isOpen = () =>
      nodes.isReady() || (performance.now() - began > shardsMs && nodes.masters().some((node) => node.isReady()));
    while (!fault && !isOpen() && !client.isClosed) await pause(LOOK_MS, undefined, { ref: false });
    if (fault) throw fault;
    isStarting = false;
    if (client.isClosed) throw new StoreUnavailable(new Error("closed"));
  };
  const opened = wait();
  // It may fail before anybody waits for it.
  opened.catch(() => {});
  return { client, opened };
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
    if (errorCodeOf(answer.reason) === "WRONGPASS")
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
