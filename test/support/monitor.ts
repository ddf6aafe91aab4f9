import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { connect } from "node:net";
import { waitFor } from "@user-group-service/testing/wait";
import { ask, type TestRedis } from "./redis.ts";

/** What clients send to a Redis. */
export interface Monitor {
  /**
   * The commands since the last time, their words joined by spaces: all that were sent before this was asked. Those that
   * scripts issue are among them.
   */
  commands(): Promise<string[]>;
  close(): void;
}

const WORD = /"((?:[^"\\]|\\.)*)"/g;

/** Watches a Redis. Not by ioredis, which fails when commands come in the packet that says that it watches. */
export async function openMonitor({ port }: Pick<TestRedis, "port">): Promise<Monitor> {
  const socket = connect(port, "127.0.0.1");
  await once(socket, "connect");
  let unread = "";
  let isWatching = false;
  let seen: string[] = [];
  socket.setEncoding("latin1");
  socket.on("error", () => {});
  socket.on("data", (text: string) => {
    const lines = (unread + text).split("\r\n");
    unread = lines.pop() ?? "";
    for (const line of lines) {
      if (isWatching) seen.push([...line.matchAll(WORD)].map(([, word]) => word).join(" "));
      isWatching = true;
    }
  });
  socket.write("MONITOR\r\n");
  await waitFor("Redis is watched", () => isWatching);
  return {
    commands: async () => {
      // What comes before it has been sent before it.
      const mark = randomUUID();
      await ask({ port }, "PING", mark);
      const isMark = (command: string) => command.endsWith(mark);
      await waitFor("the monitor has seen the mark", () => seen.some(isMark));
      const end = seen.findIndex(isMark);
      const commands = seen.slice(0, end);
      seen = seen.slice(end + 1);
      return commands;
    },
    close: () => socket.destroy(),
  };
}
