import { createConnection, isIP } from "node:net";
import { connect as connectTls, type ConnectionOptions as TlsOptions } from "node:tls";
import { AbstractConnector, type RedisOptions } from "ioredis";
import { isAnswerTo, StoreMisconfigured } from "./answers.ts";
import type { Sentinels } from "./sentinels.ts";
import type { HostPort, RedisLogin, RedisTarget } from "./url.ts";

/** Where a connection leads: to a node, or to whichever node Sentinels say is the master. */
export interface RedisPlace extends RedisLogin, Pick<RedisTarget, "shape"> {
  readonly to: HostPort | Sentinels;
}

/** The options of a connection. @param onRedisError told of every error that Redis answers with */
export function redisOptions(place: RedisPlace, onRedisError: (error: Error) => void): RedisOptions {
  const { to, db, tls, username, password } = place;
  return {
    ...("host" in to ? { host: to.host, port: to.port } : { Connector: to.connector(place) }),
    db,
    ...(tls && { tls: tlsOptions(place, "host" in to ? to.host : "") }),
    ...(tls && "host" in to && { Connector: tlsConnector(place, to) }),
    ...(username !== undefined && { username }),
    ...(password !== undefined && { password }),
    // While Redis is away a call fails at once instead of waiting for it.
    enableOfflineQueue: false,
    // A change that was cut off must not be made a second time.
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    connectTimeout: 500,
    // A node that hangs does not confirm the end of a connection.
    disconnectTimeout: 100,
    retryStrategy: (attempt) => Math.min(50 * attempt, 500),
    // How soon to ask again while Redis loads its data; its own estimate is in whole seconds.
    maxLoadingRetryTime: 100,
    reconnectOnError: (error) => {
      onRedisError(error);
      return false;
    },
  };
}

/** A connection as ioredis has it. */
export type Stream = Awaited<ReturnType<AbstractConnector["connect"]>>;

/** A connector as the option of ioredis. */
export type Connector = new (options: unknown) => AbstractConnector;

/**
 * The connector to one host by TLS. ioredis' own hears the first error of a connection alone (5.11.1); where the
 * certificate is not trusted there is a second, the host's alert, and an error that nobody hears ends the process.
 */
export function tlsConnector(login: RedisLogin, to: HostPort): Connector {
  return class extends AbstractConnector {
    constructor(options: unknown) {
      super((options as { disconnectTimeout: number }).disconnectTimeout);
    }

    async connect(): Promise<Stream> {
      this.connecting = true;
      this.stream = openStream(login, to);
      this.stream.once("error", (error) => {
        this.firstError = error;
      });
      return this.stream;
    }
  };
}

/** Begins a connection to a host. Whoever takes it hears of its first error; further ones are heard here. */
export function openStream(login: RedisLogin, to: HostPort): Stream {
  const stream = login.tls ? connectTls({ ...to, ...tlsOptions(login, to.host) }) : createConnection(to);
  return stream.on("error", () => {});
}

/** How TLS is spoken to a host. Node names no host to the server by itself, and a server of many hosts needs it. */
export function tlsOptions({ ca }: Pick<RedisLogin, "ca">, host: string): TlsOptions {
  return { ...(host !== "" && !isIP(host) && { servername: host }), ...(ca !== undefined && { ca }) };
}

/** What is wrong with the settings when Redis answers a new connection with an error; undefined for all other errors. */
export function setupFault(error: Error, { db, password }: RedisLogin): StoreMisconfigured | undefined {
  if (error instanceof StoreMisconfigured) return error;
  if (isAnswerTo("select", error)) {
    return new StoreMisconfigured(
      `Redis refuses database ${db} (${error.message}); choose another one at the end of REDIS_URL`,
    );
  }
  if (!isAnswerTo("auth", error) && !/^(WRONGPASS|NOAUTH)\b/.test(error.message)) return undefined;
  return new StoreMisconfigured(
    password === undefined
      ? `Redis wants a password (${error.message}); give it in REDIS_URL as redis://:PASSWORD@HOST or redis://USER:PASSWORD@HOST`
      : `Redis refuses the user or password of REDIS_URL (${error.message})`,
  );
}
