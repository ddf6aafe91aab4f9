import { setTimeout as pause } from "node:timers/promises";
import { StoreUnavailable } from "../../domain/errors.ts";
import { StoreClient, type StoreClientOptions } from "./client.ts";
import { ClusterNodes } from "./cluster.ts";
import type { NodeOptions } from "./connection.ts";
import { errorCodeOf, isRefusal, StoreMisconfigured } from "./errors.ts";
import { openNode, type StoreNodes, singleNode } from "./nodes.ts";
import { Sentinels } from "./options.ts";
import { wrongScheme } from "./scheme.ts";
import { nameOf, type RedisTarget } from "./url.ts";

export interface OpenOptions
  extends StoreClientOptions,
    Partial<Pick<NodeOptions, "minReplicas" | "checkConnection" | "onError" | "onReady">> {
  /** The time after which a Cluster is used even if some of its shards are missing, in milliseconds. Default: 5000. */
  readonly shardsMs?: number;
}

export interface Opening {
  /** The client. Calls of the client fail until a connection is ready. */
  readonly client: StoreClient;
  /**
   * Waits until Redis is ready, without a time limit. A Cluster is ready if every shard is ready. After `shardsMs`, one
   * ready shard is enough. Rejects with StoreMisconfigured if Redis cannot be used with this configuration. Rejects
   * with StoreUnavailable if the client is closed first.
   */
  readonly opened: Promise<void>;
}

const CHECK_MS = 5;

/** Connects to a node, the master behind Sentinels, or a Cluster. */
export function openRedis(given: RedisTarget, options: OpenOptions): Opening {
  const target = { ...given, secrets: { ...given.secrets } };
  let fault: StoreMisconfigured | undefined;
  let isStarting = true;
  let isCheckingScheme = false;
  const checkScheme = async () => {
    isCheckingScheme = true;
    const found = await wrongScheme(target);
    // The connection may have become ready during the check.
    if (isStarting) fault ??= found;
    isCheckingScheme = false;
  };
  const nodes = openNodes(target, {
    ...options,
    onError: (error) => {
      // `opened` rejects with this fault. Later errors are consequences of this fault, and are not reported.
      if (isStarting && error instanceof StoreMisconfigured) fault ??= error;
      if (fault) return;
      options.onError?.(error);
      if (isStarting && !isCheckingScheme) void checkScheme();
    },
    onReady: () => options.onReady?.(),
  });
  const { username, secrets } = target;
  const client = new StoreClient(nodes, {
    ...options,
    changeSecrets: async (changed) => {
      if (changed.password !== undefined && changed.password !== secrets.password)
        await requireAccepted(nodes, username, changed.password);
      Object.assign(secrets, changed);
    },
  });
  const { shardsMs = 5000 } = options;
  const wait = async () => {
    const began = performance.now();
    const isOpen = () =>
      nodes.isReady() || (performance.now() - began > shardsMs && nodes.masters().some((node) => node.isReady()));
    while (!fault && !isOpen() && !client.isClosed) await pause(CHECK_MS, undefined, { ref: false });
    if (fault) throw fault;
    isStarting = false;
    if (client.isClosed) throw new StoreUnavailable(new Error("closed"));
  };
  const opened = wait();
  // `opened` may reject before the caller waits for `opened`.
  opened.catch(() => {});
  return { client, opened };
}

/**
 * Checks that Redis accepts a password on every ready connection. After a refusal, the connection stays usable. Nodes
 * without a ready connection are skipped, because such a node may refuse even the current password. If a node does not
 * answer, the check ends when `dropWhenSilent` closes the connection.
 *
 * @throws StoreMisconfigured if Redis refuses the password; StoreUnavailable if Redis does not answer
 */
async function requireAccepted(nodes: StoreNodes, username: string | undefined, password: string): Promise<void> {
  const ready = nodes.masters().filter((node) => node.isReady());
  const requested = ready.map(({ reads: { redis } }) =>
    username === undefined ? redis.auth(password) : redis.auth(username, password),
  );
  for (const answer of await Promise.allSettled(requested)) {
    if (answer.status === "fulfilled") continue;
    if (!isRefusal(answer.reason)) throw new StoreUnavailable(new Error("no answer to the new password"));
    if (errorCodeOf(answer.reason) === "WRONGPASS")
      throw new StoreMisconfigured("Redis does not accept the password (WRONGPASS)");
  }
}

function openNodes(target: RedisTarget, options: NodeOptions): StoreNodes {
  switch (target.topology) {
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
