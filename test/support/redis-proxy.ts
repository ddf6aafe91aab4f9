import { connect, createServer, type Socket } from "node:net";
import { listen } from "@user-group-service/testing/wait";
import type { TestRedis } from "./redis.ts";

/** Stands between one client and Redis, and decides what passes. */
export interface RedisProxy {
  readonly url: string;
  /** Round trips begun since `allow`: requests that follow a reply, or come first; those of a subscriber do not count. */
  trips(): number;
  /** From now on this many round trips pass; the requests of further ones are held back. */
  allow(trips: number): void;
  /** Holds back requests, from the first one that has this text on, until `allow`. */
  holdFrom(text: string): void;
  /** Requests pass, but the `nth` reply to scripts from now does not: the connection breaks instead. */
  cutReply(nth: number): void;
  /** Further connections lead to another port, as after a failover behind one name; those that are open stay. */
  switchTo(port: number): void;
  close(): Promise<void>;
}

/** What begins all that a connection says which only subscribes. It takes no part in calls, and is let through. */
const SUBSCRIBER = /^\*\d+\r\n\$\d+\r\n(?:client|subscribe)\r\n/i;

/** Opens a proxy on a free port of 127.0.0.1 to a Redis. */
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
