import { createConnection } from "node:net";
import { connect as connectTls } from "node:tls";
import { AbstractConnector, Redis, type RedisOptions } from "ioredis";
import { StoreMisconfigured } from "./misconfigured.ts";
import { tlsOptions } from "./redis-options.ts";
import { type HostPort, nameOf, type RedisLogin, type RedisTarget } from "./redis-url.ts";

type Stream = Awaited<ReturnType<AbstractConnector["connect"]>>;
type Connector = new (options: unknown) => AbstractConnector;

/** What a Sentinel says of the master. */
interface Word {
  readonly master: HostPort;
  /** Grows with every failover. */
  readonly epoch: number;
}

/** How long a Sentinel may take to answer, in milliseconds. */
const ANSWER_MS = 500;

/** How long the other Sentinels are waited for when one has answered, in milliseconds: one may know of a failover before the rest. */
const OTHERS_MS = 100;

/** The channel on which a Sentinel tells of a failover: NAME OLD-HOST OLD-PORT NEW-HOST NEW-PORT. */
const SWITCH = "+switch-master";

/**
 * The Sentinels that know which Redis is the master. A connection asks them wherever it begins, and is ended as soon as
 * one of them says that the master is another. While none of them answers, the master that they named last counts, so
 * long as it says of itself that it is one: the end of all Sentinels is no outage.
 */
export class Sentinels {
  readonly #target: RedisTarget;
  readonly #onError: (error: Error) => void;
  readonly #subscribers: Redis[];
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
    const find = () => this.#master();
    const streams = this.#streams;
    return class extends AbstractConnector {
      constructor(options: unknown) {
        super((options as { disconnectTimeout: number }).disconnectTimeout);
      }

      async connect(): Promise<Stream> {
        this.connecting = true;
        const master = await find();
        if (!this.connecting) throw new Error("Connection is closed.");
        const stream = login.tls
          ? connectTls({ ...master, ...tlsOptions(login, master.host) })
          : createConnection(master);
        this.stream = stream;
        streams.set(stream, master);
        stream.once("close", () => streams.delete(stream));
        stream.once("error", (error) => {
          this.firstError = error;
        });
        return stream;
      }

      /** Whether the node is a master. A user who may not ask for its role has to believe it. */
      override check({ role }: { role?: string }): boolean {
        return role === undefined || role === "master";
      }
    };
  }

  close(): void {
    for (const subscriber of this.#subscribers) subscriber.disconnect();
  }

  /** @throws when no Sentinel answers and none ever has; StoreMisconfigured when they know no such master */
  async #master(): Promise<HostPort> {
    const { hosts, master } = this.#target;
    const words: (Word | undefined)[] = [];
    const faults: string[] = [];
    let isRefused = false;
    await new Promise<void>((resolve) => {
      let left = hosts.length;
      for (const host of hosts) {
        this.#ask(host)
          .then(
            (word) => {
              words.push(word);
              if (word) setTimeout(resolve, OTHERS_MS);
            },
            (error: Error) => {
              const refuses = /^(NOAUTH|WRONGPASS)/.test(error.message);
              isRefused ||= refuses;
              const fault = refuses ? ` refuses REDIS_SENTINEL_PASSWORD (${error.message})` : `: ${error.message}`;
              faults.push(nameOf(host) + fault);
            },
          )
          .finally(() => {
            if (--left === 0) resolve();
          });
      }
    });
    const told = words.filter((word) => word !== undefined).sort((a, b) => b.epoch - a.epoch);
    const found = told[0]?.master ?? this.#known;
    if (found) {
      this.#known = found;
      return found;
    }
    if (words.length > 0) {
      throw new StoreMisconfigured(`the Sentinels know no master ${master}; check what REDIS_URL ends with, after #`);
    }
    const text = `no Sentinel answers (${faults.join("; ")})`;
    throw isRefused
      ? new StoreMisconfigured(`${text}; set REDIS_SENTINEL_PASSWORD to the password of the Sentinels`)
      : new Error(text);
  }

  /** @returns undefined when the Sentinel knows no such master */
  async #ask(host: HostPort): Promise<Word | undefined> {
    const redis = new Redis({ ...this.#options(host), retryStrategy: () => null, commandTimeout: ANSWER_MS });
    let lastError: Error | undefined;
    redis.on("error", (error) => {
      lastError ??= error;
    });
    try {
      await redis.connect();
      const { master } = this.#target;
      const [address, about] = await Promise.all([
        redis.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", master),
        (redis.call("SENTINEL", "MASTER", master) as Promise<string[]>).catch((): string[] => []),
      ]);
      if (!Array.isArray(address)) return undefined;
      const epoch = Number(about[about.indexOf("config-epoch") + 1]);
      return { master: { host: String(address[0]), port: Number(address[1]) }, epoch: epoch || 0 };
    } catch (error) {
      throw lastError ?? error;
    } finally {
      redis.disconnect();
    }
  }

  #subscribe(host: HostPort): Redis {
    const retryStrategy = (attempt: number) => Math.min(50 * attempt, 500);
    const redis = new Redis({ ...this.#options(host), retryStrategy });
    let isAway = false;
    redis.on("error", (error) => {
      if (!isAway) this.#onError(new Error(`Sentinel ${nameOf(host)}: ${error.message}`));
      isAway = true;
    });
    redis.on("ready", () => {
      isAway = false;
      // Catches up on what this Sentinel announced before the subscription.
      redis.subscribe(SWITCH).then(
        () =>
          this.#ask(host).then(
            (word) => word && this.#knownFrom(word.master),
            () => {},
          ),
        () => {},
      );
    });
    redis.on("message", (_channel, text: string) => {
      const [name, , , newHost, port] = text.split(" ");
      if (name === this.#target.master && newHost !== undefined) this.#moveTo({ host: newHost, port: Number(port) });
    });
    redis.connect().catch(() => {});
    return redis;
  }

  /**
   * Checks the connections against what one Sentinel says. When they lead elsewhere, all Sentinels are asked, because a
   * single one may be out of date.
   */
  #knownFrom(master: HostPort): void {
    const isElsewhere = [...this.#streams.values()].some((other) => nameOf(other) !== nameOf(master));
    if (!isElsewhere) return;
    this.#master().then(
      (found) => this.#moveTo(found),
      () => {},
    );
  }

  /** Ends the connections that lead elsewhere; they are made anew, to the new master. */
  #moveTo(master: HostPort): void {
    this.#known = master;
    for (const [stream, other] of this.#streams) {
      if (nameOf(other) !== nameOf(master))
        stream.destroy(new Error(`Sentinel says that the master is ${nameOf(master)}`));
    }
  }

  #options({ host, port }: HostPort): RedisOptions {
    const { sentinelPassword, tls } = this.#target;
    return {
      host,
      port,
      ...(tls && { tls: tlsOptions(this.#target, host) }),
      ...(sentinelPassword !== undefined && { password: sentinelPassword }),
      lazyConnect: true,
      enableReadyCheck: false,
      connectTimeout: ANSWER_MS,
      disconnectTimeout: 100,
      maxRetriesPerRequest: 0,
      // Subscriptions are made anew by hand.
      autoResubscribe: false,
    };
  }
}
