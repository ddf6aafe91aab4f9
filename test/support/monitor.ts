import { randomUUID } from "node:crypto";
import { Redis } from "ioredis";
import { closeLater } from "./opened.ts";
import { waitFor } from "./wait.ts";

/** What clients send to a Redis. */
export interface Monitor {
  /**
   * The commands since the last time, their words joined by spaces: all that were sent before this was asked. Those that
   * scripts issue are among them.
   */
  commands(): Promise<string[]>;
}

/** Watches a Redis for the running test. */
export async function newMonitor({ url }: { readonly url: string }): Promise<Monitor> {
  const operator = new Redis(url).on("error", () => {});
  const monitor = await operator.monitor();
  closeLater(() => {
    operator.disconnect();
    monitor.disconnect();
  });
  let seen: string[] = [];
  monitor.on("monitor", (_time: string, args: string[]) => seen.push(args.join(" ")));
  return {
    commands: async () => {
      // What comes before it has been sent before it.
      const mark = randomUUID();
      await operator.ping(mark);
      const isMark = (command: string) => command.endsWith(mark);
      await waitFor("the monitor has seen the mark", () => seen.some(isMark));
      const end = seen.findIndex(isMark);
      const commands = seen.slice(0, end);
      seen = seen.slice(end + 1);
      return commands;
    },
  };
}
