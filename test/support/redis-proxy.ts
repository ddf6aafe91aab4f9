import { connect, createServer, type Socket } from "node:net";
import { listen } from "@user-group-service/testing/wait";
import type { TestRedis } from "./redis.ts";

/** A proxy between a client and Redis that can delay commands and break connections. */
export interface RedisProxy {
  readonly url: string;
  /**
   * Returns the number of round trips since the last call of `allow`, or since the start. Several requests count as one
   * round trip if no response arrives between them. Requests on connections of subscribers do not count.
   */
  trips(): number;
  /**
   * Forwards the delayed requests, and sets `trips()` to 0. Then forwards the requests of the next `trips` round trips.
   * Delays all later requests until the next call of `allow`.
   */
  allow(trips: number): void;
  /**
   * Waits for a request that contains `text`. This request and all requests after it are delayed until the next call of
   * `allow`.
   */
  holdFrom(text: string): void;
  /**
   * Counts the responses to scripts from this call on. Instead of forwarding the `nth` response, breaks the connection
   * of the client. Redis has then run the script, but the client does not receive the result.
   */
  cutReply(nth: number): void;
  /**
   * Forwards new connections to another port, like a host name that points to another master after a failover.
   * Connections that are already open stay on the old port.
   */
  switchTo(port: number): void;
  close(): Promise<void>;
}

/** Matches the requests of a connection that is only used to subscribe. The proxy never delays these requests. */
const SUBSCRIBER = /^\*\d+\r\n\$\d+\r\n(?:client|subscribe)\r\n/i;

export async function openRedisProxy({ port }: Pick<TestRedis, "port">): Promise<RedisProxy> {
  let target = port;
  const sockets = new Set<Socket>();
  const held: (() => void)[] = [];
  let allowed = Number.POSITIVE_INFINITY;
  let trips = 0;
  let replied = true;
  let untilCut = 0;
  let heldFrom: string | undefined;
  const server = createServer((client) => {
    const redis = connect(target, "127.0.0.1");
    for (const [one, other] of [
      [client, redis],
      [redis, client],
    ] as const) {
      sockets.add(one);
      one.on("error", () => {});
      one.on("close", () => {
        sockets.delete(one);
        other.destroy();
      });
    }
    let isScript = false;
    let isCounted = true;
    client.on("data", (request) => {
      const text = request.toString("latin1");
      isScript = /\beval(?:sha)?\b/i.test(text);
      isCounted = !SUBSCRIBER.test(text) || /\binfo\b/i.test(text);
      if (!isCounted) {
        redis.write(request);
        return;
      }
      if (heldFrom !== undefined && text.includes(heldFrom)) allowed = 0;
      if (replied) trips++;
      replied = false;
      if (trips <= allowed) redis.write(request);
      else held.push(() => redis.write(request));
    });
    redis.on("data", (reply) => {
      if (isCounted) replied = true;
      if (untilCut > 0 && isScript && --untilCut === 0) client.destroy();
      else client.write(reply);
    });
  });
  const ownPort = await listen(server);
  return {
    url: `redis://127.0.0.1:${ownPort}`,
    trips: () => trips,
    allow: (limit) => {
      trips = 0;
      replied = true;
      heldFrom = undefined;
      allowed = limit;
      for (const send of held.splice(0)) send();
    },
    holdFrom: (text) => {
      heldFrom = text;
    },
    cutReply: (nth) => {
      untilCut = nth;
    },
    switchTo: (other) => {
      target = other;
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of sockets) socket.destroy();
      }),
  };
}
