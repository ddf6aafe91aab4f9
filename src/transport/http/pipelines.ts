import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";

/**
 * How many pipelined requests may wait behind the current one on an HTTP/1.1 connection. Clients that pipeline at all
 * send a few. Without a limit node:http would accept as many as fit in a packet, which can be thousands.
 */
const MAX_WAITING = 32;

/** The pipeline of a connection. */
interface Pipeline {
  waiting: number;
  isOver: boolean;
}

/** node:http keeps the parser on the socket. The parser passes every request to this callback. */
interface ParsedSocket extends Socket {
  readonly parser?: { onIncoming: ((req: IncomingMessage, keepAlive: boolean) => number) | null } | null;
}

const pipelines = new WeakMap<Socket, Pipeline>();

/**
 * Whether to serve a request. A pipelined one that reaches the limit is the last that its connection serves. Later ones
 * are ignored, and the client has to send them again on a new connection (RFC 9112, 9.3.2).
 */
export function isTaken(req: IncomingMessage, res: ServerResponse): boolean {
  // Only a response that is queued behind another has no socket yet.
  if (res.socket !== null) return true;
  const socket: ParsedSocket = req.socket;
  const pipeline = pipelines.get(socket) ?? { waiting: 0, isOver: false };
  if (pipeline.isOver) return false;
  pipelines.set(socket, pipeline);
  pipeline.waiting++;
  res.once("close", () => {
    pipeline.waiting--;
  });
  if (pipeline.waiting === MAX_WAITING) {
    pipeline.isOver = true;
    res.shouldKeepAlive = false;
    // The parser still parses the rest of the packet; its requests must not be kept.
    if (socket.parser) socket.parser.onIncoming = () => 0;
  }
  return true;
}
