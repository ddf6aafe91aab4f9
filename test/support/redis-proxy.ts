import { connect, createServer, type Socket } from "node:net";
import { listen } from "@user-group-service/testing/wait";
import type { TestRedis } from "./redis.ts";

/** A proxy between one client and Redis that controls the traffic. */
export interface RedisProxy {
  readonly url: string;
  /**
   * Number of round trips since `allow`: a request after a response, or the first request. Subscribers do not count.
   */
  trips(): number;
  /** Lets a number of round trips pass from now on, and holds back later requests. */
  allow(trips: number): void;
  /** Holds back requests from the first one that contains a text, until `allow`. */
  holdFrom(text: string): void;
  /** Breaks the connection in place of the `nth` script response from now on. Requests pass. */
  cutReply(nth: number): void;
  /** Routes new connections to another port, as after a failover behind one host name. Open connections stay. */
  switchTo(port: number): void;
  close(): Promise<void>;
}

/**
 * First bytes of a connection that only subscribes. The proxy always passes such a connection, because calls do not use
 * it.
 */
const SUBSCRIBER = /^\*\d+\r\n\$\d+\r\n(?:client|subscribe)\r\n/i;

/** Opens a proxy to a Redis on a free port of 127.0.0.1. */
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
