import { Command, Redis } from "ioredis";

const UTF8 = { replyEncoding: "utf8" } as const;

type CommandStream = Parameters<Redis["sendCommand"]>[1];

/**
 * ioredis whose commands leave in one write for each turn of the event loop, as
 * with its auto-pipelining. That makes a pipeline for each write and two
 * promises for each command, and holds commands back until the pipeline before
 * is answered; here a command costs two thirds, and nothing waits for an answer.
 */
export class BatchingRedis extends Redis {
  /** The connection that keeps what is written until the turn is over. */
  #corked: Redis["stream"] | undefined;

  override sendCommand(command: Command, stream?: CommandStream): unknown {
    // Whatever else is written to the connection keeps its place between the commands.
    this.#cork();
    return super.sendCommand(command, stream);
  }

  /**
   * HGETALL, as the flat array of fields and values that Redis sends: making an
   * object of it costs more than half of what the command costs.
   */
  flatHash(key: string): Promise<string[]> {
    // By this name ioredis does not know it as the command whose answer it makes an object of.
    return this.sendCommand(new Command("HGETALL", [key], UTF8)) as Promise<string[]>;
  }

  #cork(): void {
    const connection = this.stream as Redis["stream"] | undefined;
    if (!connection || connection === this.#corked) return;
    connection.cork();
    this.#corked = connection;
    setImmediate(() => {
      if (this.#corked === connection) this.#corked = undefined;
      connection.uncork();
    });
  }
}
