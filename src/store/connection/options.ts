import { createConnection, isIP } from "node:net";
import { connect as connectTls } from "node:tls";
import { AbstractConnector, Redis, type RedisOptions } from "ioredis";
import { isAnswerTo, isPasswordRefusal, messageOf, StoreMisconfigured } from "./errors.ts";
import { type HostPort, nameOf, type RedisLogin, type RedisTarget } from "./url.ts";

/** Where a connection leads: to a node, or to whichever node Sentinels say is the master. */
export interface RedisDestination extends RedisLogin, Pick<RedisTarget, "shape"> {
  readonly to: HostPort | Sentinels;
}

/** The options of a connection. */
export function redisOptions(destination: RedisDestination): RedisOptions {
  const { to, db, username } = destination;
  return {
    ...connectorOptions(destination, to),
    db,
    ...(username !== undefined && { username }),
    // While Redis is away a call fails at once instead of waiting for it.
    enableOfflineQueue: false,
    // A change that was cut off must not be made a second time.
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    connectTimeout: 500,
    // How soon to ask again while Redis loads its data; its own estimate is in whole seconds.
    maxLoadingRetryTime: 100,
  };
}

/** A connection as ioredis has it. */
type Stream = Awaited<ReturnType<AbstractConnector["connect"]>>;

/**
 * The options of ioredis for a connection that is opened again whenever it is lost.
 *
 * The connector of ioredis listens for the first error of a connection only (5.11.1). Where a certificate is not trusted,
 * a second error follows, the alert of the host; an error without a listener would end the process.
 */
function connectorOptions(login: Pick<RedisLogin, "tls" | "secrets">, to: HostPort | Sentinels): RedisOptions {
  const host = "host" in to ? to : undefined;
  return {
    ...host,
    // ioredis looks only at whether `tls` is set.
    ...(login.tls && { tls: {} }),
    retryStrategy: (attempt) => Math.min(50 * attempt, 500),
    // A node that hangs does not confirm the end of a connection.
    disconnectTimeout: 100,
    Connector: class extends AbstractConnector {
      constructor(options: unknown) {
        super((options as { disconnectTimeout: number }).disconnectTimeout);
      }

      async connect(): Promise<Stream> {
        this.connecting = true;
        const address = "host" in to ? to : await to.findMaster();
        if (!this.connecting) throw new Error("closed meanwhile");
        // Node names no host to the server by itself, and a server of many hosts needs it.
        const servername = isIP(address.host) ? {} : { servername: address.host };
        const { ca: authorities } = login.secrets;
        const ca = authorities === undefined ? {} : { ca: authorities };
        const stream = login.tls ? connectTls({ ...address, ...servername, ...ca }) : createConnection({ ...address });
        stream.once("error", (error) => {
          this.firstError = error;
        });
        stream.on("error", () => {});
        this.stream = stream;
        if (!("host" in to)) to.follow(stream, address);
        return stream;
      }

      /** @param info what the node says of itself */
      override check({ role }: { readonly role?: string }): boolean {
        if ("host" in to || !role || role === "master") return true;
        to.distrust();
        return false;
      }
    },
  };
}

/** Makes a client of Redis. Each of its connections logs in with the password of that moment. */
export function newRedis(options: RedisOptions, passwordOf: () => string | undefined): Redis {
  const password = passwordOf();
  const redis = new Redis({ ...options, ...(password !== undefined && { password }) });
  Object.defineProperty(redis.options, "password", { get: passwordOf, enumerable: true });
  return redis;
}

/** What is wrong with the settings when Redis answers a new connection with an error; undefined for all other errors. */
export function setupFault(error: Error, { db, secrets: { password } }: RedisLogin): StoreMisconfigured | undefined {
  if (error instanceof StoreMisconfigured) return error;
  if (isAnswerTo("select", error)) {
    return new StoreMisconfigured(
      `Redis refuses database ${db} (${error.message}); choose another one at the end of REDIS_URL`,
    );
  }
  if (!isAnswerTo("auth", error) && !isPasswordRefusal(error)) return undefined;
  return new StoreMisconfigured(
    password === undefined
      ? `Redis wants a password (${error.message}); give it in REDIS_URL as redis://:PASSWORD@HOST or redis://USER:PASSWORD@HOST, or by REDIS_PASSWORD_FILE`
      : `Redis refuses the user or password of REDIS_URL or REDIS_PASSWORD_FILE (${error.message})`,
  );
}

/** How long a Sentinel may take to answer, in milliseconds. */
const ANSWER_MS = 500;

/** The channel on which a Sentinel tells of a failover: NAME OLD-HOST OLD-PORT NEW-HOST NEW-PORT. */
const SWITCH = "+switch-master";

/**
 * The Sentinels that know which Redis is the master. They are asked whenever a connection is opened, and a connection is
 * closed as soon as one of them names another master. While none of them answers, the master that they named last is
 * used, as long as it says that it is a master: no Sentinel being there is no outage.
 *
 * The Sentinel support of ioredis writes to standard error whenever a Sentinel is away, and closes connections at the
 * failover of any master (5.11.1).
 */
export class Sentinels {
  readonly #target: RedisTarget;
  readonly #onError: (error: Error) => void;
  readonly #subscribers: Redis[];
  /** In the order in which they are asked, the one that answered last first. */
  readonly #hosts: HostPort[];
  /** Why a Sentinel cannot be subscribed to, by its name. */
  readonly #faults = new Map<string, Error>();
  /** The connections to the master that are open, and where they lead. */
  readonly #streams = new Map<Stream, HostPort>();
  #known: HostPort | undefined;

  /** @param onError told once of each Sentinel that is lost */
  constructor(target: RedisTarget, onError: (error: Error) => void) {
    this.#target = target;
    this.#onError = onError;
    this.#hosts = [...target.hosts];
    this.#subscribers = target.hosts.map((host) => this.#subscribe(host));
  }

  /**
   * Asks for the master, one Sentinel after the other until one names it.
   *
   * @throws when none does, nor ever has; StoreMisconfigured when they know no such master or refuse to be asked
   */
  async findMaster(): Promise<HostPort> {
    const { master } = this.#target;
    const faults = new Map(this.#faults);
    let isUnknown = false;
    for (const host of [...this.#hosts]) {
      const fail = (error: Error) => faults.has(nameOf(host)) || faults.set(nameOf(host), error);
      const redis = this.#connect(host, { retryStrategy: () => null, commandTimeout: ANSWER_MS }).on("error", fail);
      try {
        const answer = (await redis.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", master)) as [string, string] | null;
        if (answer) {
          this.#known = { host: answer[0], port: Number(answer[1]) };
          return this.#known;
        }
        isUnknown = true;
      } catch (error) {
        fail(error as Error);
      } finally {
        redis.disconnect();
      }
      this.distrust();
    }
    if (this.#known) return this.#known;
    if (isUnknown) {
      throw new StoreMisconfigured(`the Sentinels know no master ${master}; check what REDIS_URL ends with, after #`);
    }
    const text = `no Sentinel answers (${[...faults].map(([name, error]) => `${name}: ${messageOf(error)}`).join("; ")})`;
    throw [...faults.values()].some(isPasswordRefusal)
      ? new StoreMisconfigured(`${text}; set REDIS_SENTINEL_PASSWORD to the password of the Sentinels`)
      : new Error(text);
  }

  /** Asks another Sentinel first next time: this one did not answer, or named a Redis that is not the master. */
  distrust(): void {
    this.#hosts.push(...this.#hosts.splice(0, 1));
  }

  /** Ends a connection to a master when another one is the master. */
  follow(stream: Stream, master: HostPort): void {
    this.#streams.set(stream, master);
    stream.once("close", () => this.#streams.delete(stream));
  }

  close(): void {
    for (const subscriber of this.#subscribers) subscriber.disconnect();
  }

  #subscribe(host: HostPort): Redis {
    const name = nameOf(host);
    // Subscriptions are made anew by hand.
    const redis = this.#connect(host, { autoResubscribe: false });
    const fail = (error: Error) => {
      if (!this.#faults.has(name)) this.#onError(new Error(`Sentinel ${name}: ${messageOf(error)}`));
      this.#faults.set(name, error);
    };
    redis.on("error", fail);
    redis.on("ready", () => {
      redis.subscribe(SWITCH).then(() => this.#faults.delete(name), fail);
    });
    redis.on("message", (_channel, text: string) => {
      const [of, , , newHost = "", newPort] = text.split(" ");
      if (of === this.#target.master) this.#moveTo({ host: newHost, port: Number(newPort) });
    });
    return redis;
  }

  /** Ends the connections that lead elsewhere; they are made anew, to the new master. */
  #moveTo(master: HostPort): void {
    this.#known = master;
    for (const [stream, other] of this.#streams) {
      if (nameOf(other) !== nameOf(master))
        stream.destroy(new Error(`Sentinel says that the master is ${nameOf(master)}`));
    }
  }

  #connect(host: HostPort, options: RedisOptions): Redis {
    const { secrets } = this.#target;
    const all = {
      ...connectorOptions(this.#target, host),
      enableReadyCheck: false,
      connectTimeout: ANSWER_MS,
      ...options,
    };
    return newRedis(all, () => secrets.sentinelPassword);
  }
}
