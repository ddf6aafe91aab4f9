import { setTimeout as pause } from "node:timers/promises";
import { Command, type Redis, type RedisOptions } from "ioredis";
import { type RedisClock, readClock } from "./clock.ts";
import type { PlainCommands } from "./commands.ts";
import { errorCodeOf, isAnswerTo, isNotSent, messageOf } from "./errors.ts";
import { configurationFault, newRedis, type RedisDestination, redisOptions } from "./options.ts";
import { requireUsable } from "./requirements.ts";
import type { Script } from "./script.ts";
import { batchWrites, dropWhenSilent } from "./sockets.ts";

export interface NodeOptions {
  /**
   * The timeout of a call, in milliseconds. If commands wait for answers, but no data arrives for this time or for
   * `MIN_SILENCE_MS`, whichever is longer, the connection is closed.
   */
  readonly timeoutMs: number;
  /** The number of replicas that must confirm a change. Default: 0. */
  readonly minReplicas?: number;
  /** Receives at most one error per attempt to connect. After StoreMisconfigured, a retry does not help. */
  readonly onError: (error: Error) => void;
  /** Checks the data to which a new connection leads. Changes are sent only after this check. Default: no check. */
  readonly checkConnection?: (redis: Redis) => Promise<void>;
  readonly onReady: () => void;
  readonly onClose?: () => void;
  /** Called when a connection is replaced because the node of the connection became a replica. */
  readonly onDemoted?: () => void;
}

export type ScriptedRedis = Redis &
  PlainCommands & {
    /** Runs a script. @param args the result of `argumentsOf` */
    runScript(script: Pick<Script, "name" | "lua">, args: readonly unknown[]): Promise<unknown>;
  };

/** A connection to Redis that connects again after each loss. */
export interface StoreConnection {
  readonly redis: ScriptedRedis;
  /** The clock of Redis. Undefined while the connection is not ready. Each new connection gets a new object. */
  clock: RedisClock | undefined;
  replace(): void;
  close(): void;
}

const MIN_SILENCE_MS = 100;

/** The time after which the service connects again if ioredis has stopped reconnecting, in milliseconds. */
const RECONNECT_MS = 100;

export function connect(destination: RedisDestination, options: NodeOptions): StoreConnection {
  const { timeoutMs, minReplicas = 0, checkConnection, onError, onReady, onClose, onDemoted } = options;
  const reconnectOnError = replaceOnDemotion(destination, () => {
    connection.replace();
    onDemoted?.();
  });
  const client = newRedis({ ...redisOptions(destination), reconnectOnError }, () => destination.secrets.password);
  const redis = Object.assign(client, { runScript: scriptRunner(client) }) as ScriptedRedis;
  batchWrites(redis);
  dropWhenSilent(redis, Math.max(timeoutMs, MIN_SILENCE_MS));

  let isClosed = false;
  let losses = 0;
  const connection: StoreConnection = {
    redis,
    clock: undefined,
    replace() {
      if (redis.status === "ready") redis.disconnect(true);
    },
    close() {
      isClosed = true;
      redis.disconnect();
    },
  };
  const report = (error: Error) => onError(configurationFault(error, destination) ?? new Error(messageOf(error)));
  redis.on("error", (error) => {
    // After a failed SELECT, ioredis would use database 0 on this connection.
    if (isAnswerTo("select", error)) redis.disconnect(true);
    report(error);
  });
  redis.on("close", () => {
    losses++;
    connection.clock = undefined;
    onClose?.();
  });
  redis.on("end", () => {
    // ioredis stops reconnecting if its connector fails. It also stops if the client is closed while the connector
    // queries the Sentinels.
    setTimeout(() => isClosed || redis.connect().catch(() => {}), RECONNECT_MS).unref();
  });
  redis.on("ready", async () => {
    const lossesBefore = losses;
    try {
      const checked = requireUsable(redis, { isCluster: destination.topology === "cluster", waits: minReplicas > 0 });
      const requested = Promise.all([
        readClock(redis),
        // Ignore an error of this check. If the connection stays open, the service repeats the check later.
        checkConnection?.(redis).catch(() => {}),
      ]).then(([clock]) => {
        if (losses === lossesBefore) connection.clock = clock;
      });
      // If `checked` rejects, `requested` may reject as well. Only the error of `checked` is reported.
      requested.catch(() => {});
      await checked;
      await requested;
      if (losses === lossesBefore) onReady();
    } catch (error) {
      // The error of a lost connection was already reported.
      if (losses === lossesBefore && !isNotSent(error)) report(error as Error);
    }
  });
  return connection;
}

/**
 * Returns a function that runs scripts with less CPU time than ioredis. The function sends the text of a script until
 * Redis has answered a call with this text. After that, the function sends the digest of the script.
 */
function scriptRunner(redis: Redis): ScriptedRedis["runScript"] {
  const known = new Set<string>();
  redis.on("close", () => known.clear());
  const utf8 = { replyEncoding: "utf8" } as const;
  const run: ScriptedRedis["runScript"] = (script, args) => {
    const { name, lua } = script;
    if (!known.has(name)) {
      const first = redis.sendCommand(new Command("eval", [lua, ...(args as string[])], utf8)) as Promise<unknown>;
      // If the call failed, Redis may not have the script. A node of a Cluster does not cache a script that it
      // redirects.
      first.then(
        () => known.add(name),
        () => {},
      );
      return first;
    }
    const answer = redis.sendCommand(new Command("evalsha", [name, ...(args as string[])], utf8)) as Promise<unknown>;
    return answer.catch((error: unknown) => {
      if (errorCodeOf(error) !== "NOSCRIPT") throw error;
      known.delete(name);
      return run(script, args);
    });
  };
  return run;
}

/** The pause between two calls of `leadsToPrimary`, in milliseconds. */
const ROLE_PAUSE_MS = 500;

const ROLE_TIMEOUT_MS = 500;

async function leadsToPrimary(destination: RedisDestination): Promise<boolean> {
  const options = {
    ...redisOptions(destination),
    lazyConnect: true,
    enableReadyCheck: false,
    retryStrategy: () => null,
    connectTimeout: ROLE_TIMEOUT_MS,
    commandTimeout: ROLE_TIMEOUT_MS,
  };
  const redis = newRedis(options, () => destination.secrets.password).on("error", () => {});
  try {
    await redis.connect();
    // Every user has the right to send HELLO.
    const answer = (await redis.call("HELLO")) as unknown[];
    return answer[answer.indexOf("role") + 1] === "master";
  } catch {
    return false;
  } finally {
    redis.disconnect();
  }
}

/**
 * Returns a function for the ioredis option `reconnectOnError`. If Redis refuses a change with READONLY, the node has
 * become a replica. If a new connection would lead to a primary, the function replaces the connection. Otherwise, the
 * connection stays open for reads. The function always returns false, so that ioredis itself does not reconnect.
 */
function replaceOnDemotion(destination: RedisDestination, replace: () => void): RedisOptions["reconnectOnError"] {
  let isChecking = false;
  const check = async () => {
    isChecking = true;
    if (await leadsToPrimary(destination)) replace();
    await pause(ROLE_PAUSE_MS, undefined, { ref: false });
    isChecking = false;
  };
  return (error) => {
    if (!isChecking && errorCodeOf(error) === "READONLY") void check();
    return false;
  };
}
