import { Redis, SentinelConnector } from "ioredis";
import { StoreMisconfigured } from "./answers.ts";
import { type Connector, openStream, type Stream, tlsConnector, tlsOptions } from "./options.ts";
import { type HostPort, nameOf, type RedisLogin, type RedisTarget } from "./url.ts";

/** How long a Sentinel may take to answer, in milliseconds. */
const ANSWER_MS = 500;

/** The channel on which a Sentinel tells of a failover: NAME OLD-HOST OLD-PORT NEW-HOST NEW-PORT. */
const SWITCH = "+switch-master";

/**
 * The Sentinels that know which Redis is the master. ioredis asks them wherever a connection begins, and a connection
 * is ended as soon as one of them says that the master is another. While none of them answers, the master that they
 * named last counts, so long as it says of itself that it is one: the end of all Sentinels is no outage.
 *
 * The subscriptions are ours: those of ioredis' `failoverDetector` write to standard error whenever a Sentinel is away
 * (5.11.1).
 */
export class Sentinels {
  readonly #target: RedisTarget;
  readonly #onError: (error: Error) => void;
  readonly #subscribers: Redis[];
  /** Why a Sentinel cannot be asked, by its name. */
  readonly #faults = new Map<string, string>();
  /** The connections to the master that are open, and where they lead. */
  readonly #streams = new Map<Stream, HostPort>();
  #known: HostPort | undefined;

  /** @param onError told once of each Sentinel that is lost */
  constructor(target: RedisTarget, onError: (error: Error) => void) {
    this.#target = target;
    this.#onError = onError;
    this.#subscribers = target.hosts.map((host) => this.#subscribe(host));
  }

  /** The connector for ioredis, which connects to the current master. */
  connector(login: RedisLogin): Connector {
    const { hosts, master: name } = this.#target;
    const tls = tlsOptions(login, "");
    const asking = this.#options();
    const masterFrom = (faults: readonly string[]) => this.#masterWithout(faults);
    const opened = (stream: Stream, master: HostPort) => this.#opened(stream, master);
    return class extends SentinelConnector {
      /** What a Sentinel has named. */
      readonly #found: { master?: HostPort };

      constructor(options: unknown) {
        const found: { master?: HostPort } = {};
        super({
          name,
          role: "master",
          sentinels: [...hosts],
          sentinelRetryStrategy: () => null,
          sentinelPassword: asking.password,
          sentinelCommandTimeout: ANSWER_MS,
          connectTimeout: ANSWER_MS,
          disconnectTimeout: (options as { disconnectTimeout: number }).disconnectTimeout,
          ...(login.tls && { enableTLSForSentinelMode: true, tls, sentinelTLS: tls }),
          // ioredis says here whom it connects to.
          natMap: (address) => {
            const [, host = "", port] = /^(.*):(\d+)$/.exec(address) ?? [];
            found.master = { host, port: Number(port) };
            return { ...found.master, ...(login.tls && tlsOptions(login, host)) };
          },
        });
        this.#found = found;
      }

      override async connect(): Promise<Stream> {
        const faults: string[] = [];
        let stream: Stream;
        try {
          stream = await super.connect((_, { message }) => faults.push(message));
        } catch (error) {
          if (!this.connecting) throw error;
          const last = masterFrom(faults);
          this.#found.master = last;
          stream = openStream(login, last);
          this.stream = stream;
          stream.once("error", (cause) => {
            this.firstError = cause;
          });
        }
        opened(stream, this.#found.master as HostPort);
        return stream;
      }
    };
  }

  close(): void {
    for (const subscriber of this.#subscribers) subscriber.disconnect();
  }

  #opened(stream: Stream, master: HostPort): void {
    this.#known = master;
    this.#streams.set(stream, master);
    // As in `openStream`.
    stream.on("error", () => {});
    stream.once("close", () => this.#streams.delete(stream));
  }

  /**
   * The master that was named last.
   *
   * @param faults why no Sentinel names one, as ioredis tells of each
   * @throws when none ever has; StoreMisconfigured when they know no such master or refuse to be asked
   */
  #masterWithout(faults: readonly string[]): HostPort {
    if (this.#known) return this.#known;
    if (faults.some((fault) => fault.includes("invalid reply"))) {
      throw new StoreMisconfigured(
        `the Sentinels know no master ${this.#target.master}; check what REDIS_URL ends with, after #`,
      );
    }
    const own = [...this.#faults].map(([host, fault]) => `${host}: ${fault}`);
    const text = `no Sentinel answers (${(own.length > 0 ? own : faults).join("; ")})`;
    throw faults.some((fault) => /\b(NOAUTH|WRONGPASS)\b/.test(fault))
      ? new StoreMisconfigured(`${text}; set REDIS_SENTINEL_PASSWORD to the password of the Sentinels`)
      : new Error(text);
  }

  #subscribe({ host, port }: HostPort): Redis {
    const name = nameOf({ host, port });
    const { tls } = this.#target;
    const redis = new Redis({
      ...this.#options(host),
      ...(tls && { Connector: tlsConnector(this.#target, { host, port }) }),
      host,
      port,
      retryStrategy: (attempt) => Math.min(50 * attempt, 500),
      enableReadyCheck: false,
      connectTimeout: ANSWER_MS,
      disconnectTimeout: 100,
      // Subscriptions are made anew by hand.
      autoResubscribe: false,
    });
    const fail = ({ message }: Error) => {
      if (!this.#faults.has(name)) this.#onError(new Error(`Sentinel ${name}: ${message}`));
      this.#faults.set(name, message);
    };
    redis.on("error", fail);
    redis.on("ready", () => {
      redis.subscribe(SWITCH).then(() => this.#faults.delete(name), fail);
    });
    redis.on("message", (_channel, text: string) => {
      const [of, , , newHost, newPort] = text.split(" ");
      if (of === this.#target.master && newHost !== undefined) this.#moveTo({ host: newHost, port: Number(newPort) });
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

  /** How Sentinels are logged in to. */
  #options(host = "") {
    const { sentinelPassword: password, tls } = this.#target;
    return {
      ...(tls && { tls: tlsOptions(this.#target, host) }),
      ...(password !== undefined && { password }),
    };
  }
}
