import { createHash } from "node:crypto";
import { Command, Redis } from "ioredis";
import type { PlainCommands } from "./commands.ts";
import { isAnswerTo, isNotSent } from "./commands.ts";
import { RedisClock } from "./deadlines.ts";
import { type RedisPlace, redisOptions, setupFault } from "./options.ts";
import { requireUsable } from "./requirements.ts";

/** ioredis, which `send` makes the scripts of this service commands of. */
export type ScriptedRedis = Redis & PlainCommands;

/** A connection to Redis, which is made anew whenever it is lost. */
export interface StoreConnection {
  readonly redis: ScriptedRedis;
  /** Redis' clock as far as it is known; undefined while nothing can be sent. */
  clock: RedisClock | undefined;
  /** How often it was lost. */
  losses: number;
  /** Whether nothing has come for a while though answers are awaited. */
  isSilent(): boolean;
  close(): void;
}

/** How a connection behaves, and who is told of it. */
export interface ConnectionOptions {
  /** How long it may be silent while answers are awaited, in milliseconds; then it is made anew. */
  readonly silenceMs: number;
  /** How many replicas must confirm a change; 0 for none. */
  readonly minReplicas: number;
  /** Told of connection errors, at most once per attempt; of StoreMisconfigured when Redis cannot be used as it is. */
  readonly onError: (error: Error) => void;
  /** Told whenever the connection is ready. */
  readonly onReady: () => void;
  /** Told whenever the connection is lost. */
  readonly onClose?: () => void;
}

/** How long after ioredis has given up it is told to connect again, in milliseconds. */
const GIVEN_UP_MS = 100;

/** Connects to Redis. */
export function connect(place: RedisPlace, options: ConnectionOptions): StoreConnection {
  const { silenceMs, minReplicas, onError, onReady, onClose } = options;
  const redis = new Redis(redisOptions(place)) as ScriptedRedis;
  reconnectWhenDemoted(redis);
  batchWrites(redis);
  defineScripts(redis);
  const isSilent = dropWhenSilent(redis, silenceMs);

  let isClosed = false;
  const connection: StoreConnection = {
    redis,
    clock: undefined,
    losses: 0,
    isSilent,
    close() {
      isClosed = true;
      redis.disconnect();
    },
  };
  const report = (error: Error) => onError(setupFault(error, place) ?? error);
  redis.on("error", (error) => {
    // ioredis would go on with database 0.
    if (isAnswerTo("select", error)) redis.disconnect(true);
    report(error);
  });
  redis.on("close", () => {
    connection.losses++;
    connection.clock = undefined;
    onClose?.();
  });
  redis.on("end", () => {
    // ioredis gives up when its connector fails, or is ended while it looks for the master.
    setTimeout(() => isClosed || redis.connect().catch(() => {}), GIVEN_UP_MS).unref();
  });
  redis.on("ready", async () => {
    const { losses } = connection;
    try {
      const checked = requireUsable(redis, { isCluster: place.shape === "cluster", waits: minReplicas > 0 });
      const asked = readClock(redis).then((clock) => {
        if (connection.losses === losses) connection.clock = clock;
      });
      // What is missing is said before what fails without it.
      asked.catch(() => {});
      await checked;
      await asked;
      if (connection.losses === losses) onReady();
    } catch (error) {
      // What ends a connection that was ready for a moment has been reported.
      if (connection.losses === losses && !isNotSent(error)) report(error as Error);
    }
  });
  return connection;
}

/** Asks Redis for its clock. */
export async function readClock(redis: Redis): Promise<RedisClock> {
  const clock = new RedisClock();
  const asked = performance.now();
  const [seconds, microseconds] = await redis.time();
  clock.learn(Number(seconds) * 1000 + Math.floor(Number(microseconds) / 1000), asked, performance.now());
  return clock;
}

/**
 * Has scripts be commands of a connection by fewer steps than ioredis' own take. A script is sent whole until a
 * connection has answered it once, and by its digest from then on.
 */
function defineScripts(redis: Redis): void {
  const known = new Set<string>();
  redis.on("close", () => known.clear());
  const utf8 = { replyEncoding: "utf8" } as const;
  redis.defineCommand = (name, { lua = "" }) => {
    const digest = createHash("sha1").update(lua).digest("hex");
    const run = (...args: string[]): Promise<unknown> => {
      if (!known.has(digest)) {
        const first = redis.sendCommand(new Command("eval", [lua, "1", ...args], utf8)) as Promise<unknown>;
        // A node of a Cluster that redirects it has not learnt it.
        first.then(
          () => known.add(digest),
          () => {},
        );
        return first;
      }
      const answer = redis.sendCommand(new Command("evalsha", [digest, "1", ...args], utf8)) as Promise<unknown>;
      return answer.catch((error: Error) => {
        if (!error.message.startsWith("NOSCRIPT")) throw error;
        known.delete(digest);
        return run(...args);
      });
    };
    Object.assign(redis, { [name]: run });
  };
}

type CommandStream = Parameters<Redis["sendCommand"]>[1];

/**
 * Has the commands of one turn of the event loop leave a connection in one write, as ioredis' auto-pipelining does,
 * without its pipelines and its two promises for each command. Whatever else is written to the connection keeps its
 * place between the commands.
 */
export function batchWrites(redis: Redis): void {
  const sendCommand = redis.sendCommand.bind(redis);
  let corked: Redis["stream"] | undefined;
  const uncork = () => {
    corked?.uncork();
    corked = undefined;
  };
  redis.sendCommand = (command, stream?: CommandStream) => {
    const connection = redis.stream as Redis["stream"] | undefined;
    if (connection !== undefined && connection !== corked) {
      // The connection was replaced within this turn. The pending `uncork` serves the new one.
      corked?.uncork();
      connection.cork();
      if (corked === undefined) setImmediate(uncork);
      corked = connection;
    }
    return sendCommand(command, stream);
  };
}

/** How many times a connection is checked within the time that it may be silent. */
const LOOKS = 4;

/**
 * Ends a connection from which nothing has come for a time though answers are awaited, so that a new one is made.
 * ioredis has an option for this, `socketTimeout`, whose timer outlives its connection and ends the next one (5.11.1).
 *
 * @param silenceMs how long it may be silent, in milliseconds; what is ended has been silent up to a quarter longer
 * @returns whether it is silent now, for at least a quarter of that time
 */
export function dropWhenSilent(redis: Redis, silenceMs: number): () => boolean {
  let silent = 0;
  redis.on("connect", () => {
    const { stream } = redis;
    let heard = true;
    silent = 0;
    stream.on("data", () => {
      heard = true;
    });
    const look = () => {
      silent = heard || redis.commandQueue.length === 0 ? 0 : silent + 1;
      heard = false;
      // The first check may have come right after a command was sent.
      if (silent <= LOOKS || stream.destroyed) return;
      stream.destroy(new Error(`Redis does not answer: nothing has come for ${silenceMs} ms`));
    };
    // After the reads of this turn, so that answers which arrived while the process was busy count.
    const timer = setInterval(() => setImmediate(look), silenceMs / LOOKS);
    stream.once("close", () => clearInterval(timer));
  });
  return () => silent > 1;
}

/** The longest pause between two attempts, in milliseconds. */
const LONGEST_MS = 2000;

/** A refusal that comes this long after the last one, in milliseconds, is the first of another demotion. */
const OVER_MS = 10_000;

/**
 * Connects anew when Redis refuses a change because it is a replica: it was demoted, and the name or address may lead
 * to the new primary by now. The first time at once, then with pauses that double, because reads are answered meanwhile
 * and each attempt interrupts them.
 */
function reconnectWhenDemoted(redis: Redis): void {
  let pauseMs = 0;
  let last = Number.NEGATIVE_INFINITY;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const reconnect = () => {
    timer = undefined;
    if (redis.status === "ready") redis.disconnect(true);
  };
  // Told of every error that Redis answers; whether ioredis is to connect anew itself.
  redis.options.reconnectOnError = ({ message }) => {
    if (!message.startsWith("READONLY")) return false;
    const now = performance.now();
    if (now - last > OVER_MS) pauseMs = 0;
    last = now;
    if (timer !== undefined) return false;
    timer = setTimeout(reconnect, pauseMs).unref();
    pauseMs = Math.min(pauseMs * 2 || 100, LONGEST_MS);
    return false;
  };
}
