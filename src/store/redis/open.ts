import { StoreUnavailable } from "../../domain/errors.ts";
import { within } from "../../within.ts";
import { StoreMisconfigured } from "./answers.ts";
import { StoreClient, type StoreClientOptions } from "./client.ts";
import { ClusterNodes } from "./cluster.ts";
import type { ConnectionOptions } from "./connection.ts";
import { openNode, type StoreNodes, singleNode } from "./nodes.ts";
import { Sentinels } from "./sentinels.ts";
import { nameOf, type RedisTarget, readRedisUrl } from "./url.ts";

/** How to connect to Redis. */
export interface OpenOptions extends StoreClientOptions, Partial<Pick<ConnectionOptions, "onError" | "onReady">> {
  /** How many replicas must confirm a change; default 0: none. */
  readonly minReplicas?: number;
  /** The CAs of Redis' certificates, in PEM; default: those that the runtime trusts. */
  readonly ca?: string | undefined;
  /** The password of the Sentinels; default: none. */
  readonly sentinelPassword?: string | undefined;
  /** How long to try to connect, in milliseconds; default 10,000. Of a Cluster, some shards may be away after half of it. */
  readonly connectMs?: number;
}

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
  const {
    nodes,
    opened,
    some = opened,
  } = openNodes(read.target, {
    ...options,
    onError: (error: Error) => {
      // Whoever waits reports what ends the start. Errors that follow from it are not reported.
      const isEnded = isStarting && (lastError instanceof StoreMisconfigured || error instanceof StoreMisconfigured);
      if (!isEnded) options.onError?.(error);
      if (!(lastError instanceof StoreMisconfigured)) lastError = error;
    },
    onReady: () => options.onReady?.(),
  });
  const client = new StoreClient(nodes, options);
  try {
    const halfMs = (options.connectMs ?? 10_000) / 2;
    await within(halfMs, opened, "timeout").catch((error: unknown) => {
      if (error instanceof StoreMisconfigured) throw error;
      // All shards of a Cluster have had their time. From now on those that are there will do.
      return within(halfMs, Promise.race([opened, some]), "timeout");
    });
  } catch (error) {
    client.close();
    throw error instanceof StoreMisconfigured ? error : new StoreUnavailable(lastError ?? new Error("no answer"));
  }
  isStarting = false;
  return client;
}

/**
 * `opened` resolves when every node is connected, `some` when any is, where there may be several; `opened` rejects with
 * StoreMisconfigured when the settings prevent that.
 */
function openNodes(
  target: RedisTarget,
  options: OpenOptions & Required<Pick<OpenOptions, "onError" | "onReady">>,
): { readonly nodes: StoreNodes; readonly opened: Promise<unknown>; readonly some?: Promise<unknown> } {
  switch (target.shape) {
    case "node": {
      const [to] = target.hosts;
      const { node, opened } = openNode(nameOf(to), { ...target, to }, options);
      return { nodes: singleNode(node), opened };
    }
    case "sentinel": {
      const sentinels = new Sentinels(target, options.onError);
      const { node, opened } = openNode(target.master, { ...target, to: sentinels }, options);
      return { nodes: singleNode(node, () => sentinels.close()), opened };
    }
    case "cluster": {
      const nodes = new ClusterNodes(target, options);
      return { nodes, opened: nodes.opened, some: nodes.some };
    }
  }
}
