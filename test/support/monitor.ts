import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { connect } from "node:net";
import { waitFor } from "@user-group-service/testing/wait";
import { ask, type TestRedis } from "./redis.ts";

export interface Monitor {
  /**
   * Returns the commands that Redis has run since the previous call of this function, as text. Commands that scripts
   * have run are included.
   */
  commands(): Promise<string[]>;
  close(): void;
}

const WORD = /"((?:[^"\\]|\\.)*)"/g;

/**
 * Runs MONITOR on a Redis. Uses a socket instead of ioredis: if the first reply and a monitored command arrive in the
 * same packet, ioredis fails.
 */
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
  await waitFor("MONITOR has begun", () => isWatching);
  return {
    commands: async () => {
      // Redis reports commands in the order in which it runs them. So when the PING with the mark is reported, all
      // commands before the PING have been reported.
      const mark = randomUUID();
      await ask({ port }, "PING", mark);
      const isMark = (command: string) => command.endsWith(mark);
      await waitFor("the monitor has received the mark", () => seen.some(isMark));
      const end = seen.findIndex(isMark);
      const commands = seen.slice(0, end);
      seen = seen.slice(end + 1);
      return commands;
    },
    close: () => socket.destroy(),
  };
}
