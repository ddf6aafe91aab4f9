import { connect, createServer, type Socket } from "node:net";
import { listen } from "@user-group-service/testing/wait";
import type { TestRedis } from "./redis.ts";

/** A proxy between a client and Redis that can delay commands and break connections. */
export interface RedisProxy {
  readonly url: string;
  /**
   * Returns the number of round trips since `allow`. A round trip begins with the first request, or with a request that
   * follows a response. Requests of subscribers do not count.
   */
  trips(): number;
  /** Forwards this number of further round trips, and delays all later requests. */
  allow(trips: number): void;
  /** Delays the first request that contains a text, and all later requests, until `allow`. */
  holdFrom(text: string): void;
  /** Breaks the connection instead of forwarding the `nth` script response from now on. Redis receives all requests. */
  cutReply(nth: number): void;
  /**
   * Connects new clients to another port, like a failover behind a host name. Open connections stay connected to the
   * old port.
   */
  switchTo(port: number): void;
  close(): Promise<void>;
}

/**
 * Matches the first bytes of a connection that only subscribes. The proxy forwards the requests of such a connection
 * without delay.
 */
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
