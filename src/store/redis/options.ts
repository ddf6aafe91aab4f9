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

/** The options of a connection. */
export function redisOptions(place: RedisPlace): RedisOptions {
  const { to, db, username, password } = place;
  return {
    ...connectorOptions(place, to),
    db,
    ...(username !== undefined && { username }),
    ...(password !== undefined && { password }),
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
export type Stream = Awaited<ReturnType<AbstractConnector["connect"]>>;

/**
 * The options of ioredis by which a connection is begun anew whenever it is lost.
 *
 * Its own connector to a host hears the first error of a connection alone (5.11.1); where the certificate is not trusted
 * there is a second, the host's alert, and an error that nobody hears ends the process.
 */
export function connectorOptions(login: Pick<RedisLogin, "tls" | "ca">, to: HostPort | Sentinels): RedisOptions {
  const host = "host" in to ? to : undefined;
  return {
    ...host,
    // ioredis looks only at whether it is there.
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
        const stream = login.tls
          ? connectTls({ ...address, ...tlsOptions(login, address.host) })
          : createConnection({ ...address });
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

/** How TLS is spoken to a host. Node names no host to the server by itself, and a server of many hosts needs it. */
function tlsOptions({ ca }: Pick<RedisLogin, "ca">, host: string): TlsOptions {
  return { ...(!isIP(host) && { servername: host }), ...(ca !== undefined && { ca }) };
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
