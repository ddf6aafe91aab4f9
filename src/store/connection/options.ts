import { createConnection, isIP } from "node:net";
import { connect as connectTls } from "node:tls";
import { AbstractConnector, Redis, type RedisOptions } from "ioredis";
import { isAnswerTo, isPasswordRefusal, messageOf, StoreMisconfigured } from "./errors.ts";
import { type HostPort, nameOf, type RedisLogin, type RedisTarget } from "./url.ts";

/** The destination of a connection. If `to` is the Sentinels, the destination is the current master. */
export interface RedisDestination extends RedisLogin, Pick<RedisTarget, "topology"> {
  readonly to: HostPort | Sentinels;
}

export function redisOptions(destination: RedisDestination): RedisOptions {
  const { to, db, username } = destination;
  return {
    ...connectorOptions(destination, to),
    db,
    ...(username !== undefined && { username }),
    // While Redis is down, a call fails immediately.
    enableOfflineQueue: false,
    // If a connection is lost before the answer to a change, the change must not run a second time.
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    connectTimeout: 500,
    // While Redis loads its data, ioredis waits at most this time before its next check. By default, ioredis waits for
    // the time that Redis estimates in whole seconds.
    maxLoadingRetryTime: 100,
  };
}

type Stream = Awaited<ReturnType<AbstractConnector["connect"]>>;

/**
 * Returns the ioredis options of a connection that reconnects after each loss.
 *
 * The option `Connector` replaces the connector of ioredis (5.11.1), which listens for only the first error of a
 * connection. An untrusted certificate causes a second error, which is the TLS alert of the host. Without a listener,
 * the second error would end the process.
 */
function connectorOptions(login: Pick<RedisLogin, "tls" | "secrets">, to: HostPort | Sentinels): RedisOptions {
  const host = "host" in to ? to : undefined;
  return {
    ...host,
    // ioredis checks only whether `tls` is set, and ignores the value.
    ...(login.tls && { tls: {} }),
    retryStrategy: (attempt) => Math.min(50 * attempt, 500),
    // After this time in milliseconds, `disconnect` destroys the socket, because a hung node does not close the socket.
    disconnectTimeout: 100,
    Connector: class extends AbstractConnector {
      constructor(options: unknown) {
        super((options as { disconnectTimeout: number }).disconnectTimeout);
      }

      async connect(): Promise<Stream> {
        this.connecting = true;
        const address = "host" in to ? to : await to.findMaster();
        if (!this.connecting) throw new Error("closed before the connection was open");
        // Node does not set the server name (SNI) by default.
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

      override check({ role }: { readonly role?: string }): boolean {
        if ("host" in to || !role || role === "master") return true;
        to.tryNextFirst();
        return false;
      }
    },
  };
}

/** Creates an ioredis client. Each connection of the client logs in with the current password. */
export function newRedis(options: RedisOptions, passwordOf: () => string | undefined): Redis {
  const password = passwordOf();
  const redis = new Redis({ ...options, ...(password !== undefined && { password }) });
  Object.defineProperty(redis.options, "password", { get: passwordOf, enumerable: true });
  return redis;
}

/** If a wrong configuration caused an error, returns an error with the remedy. Otherwise returns undefined. */
export function configurationFault(
  error: Error,
  { db, secrets: { password } }: RedisLogin,
): StoreMisconfigured | undefined {
  if (error instanceof StoreMisconfigured) return error;
  if (isAnswerTo("select", error)) {
    return new StoreMisconfigured(
      `Redis refuses database ${db} (${error.message}); set another database at the end of REDIS_URL`,
    );
  }
  if (!isAnswerTo("auth", error) && !isPasswordRefusal(error)) return undefined;
  return new StoreMisconfigured(
    password === undefined
      ? `Redis requires a password (${error.message}); set it in REDIS_URL as redis://:PASSWORD@HOST or redis://USER:PASSWORD@HOST, or in REDIS_PASSWORD_FILE`
      : `Redis refuses the user or password in REDIS_URL or REDIS_PASSWORD_FILE (${error.message})`,
  );
}

const SENTINEL_TIMEOUT_MS = 500;

/** The channel on which Sentinels announce failovers. A message is NAME OLD-HOST OLD-PORT NEW-HOST NEW-PORT. */
const SWITCH_CHANNEL = "+switch-master";

/**
 * The Sentinels of a master. Each new connection queries the Sentinels for the master. If a Sentinel announces another
 * master, the connections to the old master are closed. If no Sentinel answers, new connections use the last known
 * master. They fail if this Redis is no longer a master.
 *
 * This class replaces the Sentinel support of ioredis (5.11.1). The support of ioredis writes to standard error when a
 * Sentinel is down. It also closes connections when a Sentinel announces a failover of a master with another name.
 */
export class Sentinels {
  readonly #target: RedisTarget;
  readonly #onError: (error: Error) => void;
  readonly #subscribers: Redis[];
  /** The Sentinels in the order of the queries. The Sentinel with the most recent answer is the first. */
  readonly #hosts: HostPort[];
  readonly #faults = new Map<string, Error>();
  readonly #streams = new Map<Stream, HostPort>();
  #known: HostPort | undefined;

  /** @param onError receives one error for each lost Sentinel */
  constructor(target: RedisTarget, onError: (error: Error) => void) {
    this.#target = target;
    this.#onError = onError;
    this.#hosts = [...target.hosts];
    this.#subscribers = target.hosts.map((host) => this.#subscribe(host));
  }

  /**
   * Queries the Sentinels one after the other, until one returns the master. If none returns a master, returns the last
   * known master.
   *
   * @throws StoreMisconfigured if the Sentinels do not know the name of the master, or require a password; Error if no
   *   Sentinel answers and no master is known
   */
  async findMaster(): Promise<HostPort> {
    const { master } = this.#target;
    const faults = new Map(this.#faults);
    let isUnknown = false;
    for (const host of [...this.#hosts]) {
      const fail = (error: Error) => faults.has(nameOf(host)) || faults.set(nameOf(host), error);
      const redis = this.#connect(host, { retryStrategy: () => null, commandTimeout: SENTINEL_TIMEOUT_MS }).on(
        "error",
        fail,
      );
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
      this.tryNextFirst();
    }
    if (this.#known) return this.#known;
    if (isUnknown) {
      throw new StoreMisconfigured(
        `the Sentinels have no master ${master}; correct the name after # at the end of REDIS_URL`,
      );
    }
    const text = `no Sentinel answered (${[...faults].map(([name, error]) => `${name}: ${messageOf(error)}`).join("; ")})`;
    throw [...faults.values()].some(isPasswordRefusal)
      ? new StoreMisconfigured(`${text}; set REDIS_SENTINEL_PASSWORD to the password of the Sentinels`)
      : new Error(text);
  }

  /** Makes the first Sentinel the last one, because this Sentinel did not answer or returned a wrong master. */
  tryNextFirst(): void {
    this.#hosts.push(...this.#hosts.splice(0, 1));
  }

  /** Closes this connection to a master when another Redis becomes the master. */
  follow(stream: Stream, master: HostPort): void {
    this.#streams.set(stream, master);
    stream.once("close", () => this.#streams.delete(stream));
  }

  close(): void {
    for (const subscriber of this.#subscribers) subscriber.disconnect();
  }

  #subscribe(host: HostPort): Redis {
    const name = nameOf(host);
    const redis = this.#connect(host, { autoResubscribe: false });
    const fail = (error: Error) => {
      if (!this.#faults.has(name)) this.#onError(new Error(`Sentinel ${name}: ${messageOf(error)}`));
      this.#faults.set(name, error);
    };
    redis.on("error", fail);
    redis.on("ready", () => {
      redis.subscribe(SWITCH_CHANNEL).then(() => this.#faults.delete(name), fail);
    });
    redis.on("message", (_channel, text: string) => {
      const [of, , , newHost = "", newPort] = text.split(" ");
      if (of === this.#target.master) this.#switchTo({ host: newHost, port: Number(newPort) });
    });
    return redis;
  }

  #switchTo(master: HostPort): void {
    this.#known = master;
    for (const [stream, other] of this.#streams) {
      if (nameOf(other) !== nameOf(master))
        stream.destroy(new Error(`Sentinel announced the master ${nameOf(master)}`));
    }
  }

  #connect(host: HostPort, options: RedisOptions): Redis {
    const { secrets } = this.#target;
    const all = {
      ...connectorOptions(this.#target, host),
      enableReadyCheck: false,
      connectTimeout: SENTINEL_TIMEOUT_MS,
      ...options,
    };
    return newRedis(all, () => secrets.sentinelPassword);
  }
}
