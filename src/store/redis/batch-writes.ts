import type { Redis } from "ioredis";

type CommandStream = Parameters<Redis["sendCommand"]>[1];

/**
 * Has the commands of one turn of the event loop leave a connection in one write, as ioredis' auto-pipelining does,
 * without its pipelines and its two promises for each command. Whatever else is written to the connection keeps its
 * place between the commands.
 */
export function batchWrites(redis: Redis): void {
  const sendCommand = redis.sendCommand.bind(redis);
  let corked: Redis["stream"] | undefined;
  const uncork = () => {
    corked?.uncork();
    corked = undefined;
  };
  redis.sendCommand = (command, stream?: CommandStream) => {
    const connection = redis.stream as Redis["stream"] | undefined;
    if (connection !== undefined && connection !== corked) {
      // The connection was replaced within this turn. The pending `uncork` serves the new one.
      corked?.uncork();
      connection.cork();
      if (corked === undefined) setImmediate(uncork);
      corked = connection;
    }
    return sendCommand(command, stream);
  };
}
