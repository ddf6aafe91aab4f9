import { Command, Redis } from "ioredis";

const UTF8 = { replyEncoding: "utf8" } as const;

/**
 * How long Redis may be silent, while answers are awaited, before further
 * commands are held back, in milliseconds.
 */
const SILENCE_MS = 5;

type CommandStream = Parameters<Redis["sendCommand"]>[1];

/**
 * ioredis whose commands leave in one write for each turn of the event loop, as
 * with its auto-pipelining. That makes a pipeline for each write and two
 * promises for each command, and holds commands back until the pipeline before
 * is answered; here a command costs two thirds, and commands are held back only
 * while Redis is silent. What was written to a Redis that does not answer it may
 * still carry out, long after the caller was told that it failed; what is held
 * back is dropped with the connection.
 */
export class BatchingRedis extends Redis {
  /** The connection that keeps what is written to it until the turn is over, or until Redis answers. */
  #corked: Redis["stream"] | undefined;
  /** The connection whose answers are watched for. */
  #watched: Redis["stream"] | undefined;
  /** Since when answers are awaited, or when the last came; undefined: none are. By `performance.now()`. */
  #silentSince: number | undefined;

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
    if (connection !== this.#watched && this.status === "ready") this.#watch(connection);
    connection.cork();
    this.#corked = connection;
    setImmediate(() => {
      const isSilent = this.#silentSince !== undefined && performance.now() - this.#silentSince > SILENCE_MS;
      if (connection !== this.#watched || !isSilent) this.#uncork(connection);
    });
  }

  #watch(connection: Redis["stream"]): void {
    this.#watched = connection;
    this.#silentSince = undefined;
    // ioredis has read what came by the time that this is called, for it listens in front.
    connection.on("data", () => {
      if (connection !== this.#watched) return;
      this.#silentSince = undefined;
      this.#uncork(connection);
    });
  }

  #uncork(connection: Redis["stream"]): void {
    if (this.commandQueue.length > 0) this.#silentSince ??= performance.now();
    if (connection !== this.#corked) return;
    this.#corked = undefined;
    connection.uncork();
  }
}
