import { setTimeout as pause } from "node:timers/promises";
import { Command, type Redis, type RedisOptions } from "ioredis";
import { type RedisClock, readClock } from "./clock.ts";
import type { PlainCommands } from "./commands.ts";
import { errorCodeOf, isAnswerTo, isNotSent, messageOf } from "./errors.ts";
import { configurationFault, newRedis, type RedisDestination, redisOptions } from "./options.ts";
import { requireUsable } from "./requirements.ts";
import type { Script } from "./script.ts";
import { batchWrites, dropWhenSilent } from "./sockets.ts";

/** The options and the callbacks of the connections to a node. */
export interface NodeOptions {
  /** The timeout of a call, in milliseconds. A connection without any answer for this time is closed. */
  readonly timeoutMs: number;
  /** The number of replicas that must confirm a change. Default: 0. */
  readonly minReplicas?: number;
  /**
   * Receives connection errors, at most one per attempt. The error StoreMisconfigured means that Redis cannot be used
   * with this configuration.
   */
  readonly onError: (error: Error) => void;
  /** Checks the Redis behind a new connection. Changes are sent after the check has settled. Default: no check. */
  readonly checkConnection?: (redis: Redis) => Promise<void>;
  /** Called when a connection is ready. */
  readonly onReady: () => void;
  /** Called when a connection is lost. */
  readonly onClose?: () => void;
  /** Called when the connection is replaced because its node became a replica. */
  readonly onDemoted?: () => void;
}

/** An ioredis client that runs scripts. */
export type ScriptedRedis = Redis &
  PlainCommands & {
    /** Runs a script. @param args as `argumentsOf` returns them */
    runScript(script: Pick<Script, "name" | "lua">, args: readonly unknown[]): Promise<unknown>;
  };

/** A connection to Redis. It reconnects when it is lost. */
export interface StoreConnection {
  readonly redis: ScriptedRedis;
  /** The clock of Redis. Undefined while the connection is not ready. */
  clock: RedisClock | undefined;
  /** The number of losses of the connection. */
  losses: number;
  /** Closes this connection and opens another one. */
  replace(): void;
  close(): void;
}

/** The shortest time without an answer after which a connection is closed, in milliseconds. */
const MIN_SILENCE_MS = 100;

/** The pause before a new attempt after ioredis has stopped reconnecting, in milliseconds. */
const RECONNECT_MS = 100;

/** Connects to Redis. */
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
  const connection: StoreConnection = {
    redis,
    clock: undefined,
    losses: 0,
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
    // ioredis would continue with database 0.
    if (isAnswerTo("select", error)) redis.disconnect(true);
    report(error);
  });
  redis.on("close", () => {
    connection.losses++;
    connection.clock = undefined;
    onClose?.();
  });
  redis.on("end", () => {
    // ioredis stops reconnecting if its connector fails, or is closed while it queries the master.
    setTimeout(() => isClosed || redis.connect().catch(() => {}), RECONNECT_MS).unref();
  });
  redis.on("ready", async () => {
    const { losses } = connection;
    try {
      const checked = requireUsable(redis, { isCluster: destination.topology === "cluster", waits: minReplicas > 0 });
      const requested = Promise.all([
        readClock(redis),
        // If this check fails and the connection stays open, the service checks again later.
        checkConnection?.(redis).catch(() => {}),
      ]).then(([clock]) => {
        if (connection.losses === losses) connection.clock = clock;
      });
      // If `checked` rejects, reading the clock may fail, too. Only the error of `checked` is reported.
      requested.catch(() => {});
      await checked;
      await requested;
      if (connection.losses === losses) onReady();
    } catch (error) {
      // A lost connection has already reported its error.
      if (connection.losses === losses && !isNotSent(error)) report(error as Error);
    }
  });
  return connection;
}

/**
 * Runs scripts on a connection, with less CPU than ioredis. The connection sends the text of a script until Redis has answered it
 * once. After that, it sends the digest of the script.
 */
function scriptRunner(redis: Redis): ScriptedRedis["runScript"] {
  const known = new Set<string>();
  redis.on("close", () => known.clear());
  const utf8 = { replyEncoding: "utf8" } as const;
  const run: ScriptedRedis["runScript"] = (script, args) => {
    const { name, lua } = script;
    if (!known.has(name)) {
      const first = redis.sendCommand(new Command("eval", [lua, ...(args as string[])], utf8)) as Promise<unknown>;
      // A node of a Cluster that redirects the script has not cached it.
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

/** The shortest interval of checks whether the destination leads to a primary, in milliseconds. */
const ROLE_INTERVAL_MS = 500;

/** The timeout of the connection that checks the role of Redis, in milliseconds. */
const ROLE_TIMEOUT_MS = 500;

/** Whether a new connection to this destination reaches a primary. */
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
 * Replaces the connection to a demoted node. Redis has refused a change with READONLY, and the destination leads to a primary now.
 * While the destination leads to a replica, the connection stays open, because the replica still answers reads.
 *
 * @returns the ioredis option `reconnectOnError`. It always returns false, because this function replaces the connection itself
 */
function replaceOnDemotion(destination: RedisDestination, replace: () => void): RedisOptions["reconnectOnError"] {
  let isChecking = false;
  return (error) => {
    if (isChecking || errorCodeOf(error) !== "READONLY") return false;
    isChecking = true;
    const [checked, interval] = [leadsToPrimary(destination), pause(ROLE_INTERVAL_MS, undefined, { ref: false })];
    void checked.then((isPrimary) => isPrimary && replace());
    void Promise.all([checked, interval]).then(() => {
      isChecking = false;
    });
    return false;
  };
}
