import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";

/**
 * How many requests of an HTTP/1.1 connection may wait behind the one that is being answered. Clients that pipeline at
 * all send a few; node:http would take in as many as fit in a packet, some thousands.
 */
const MAX_WAITING = 32;

/** A connection whose requests are in a pipeline. */
interface Pipeline {
  waiting: number;
  isOver: boolean;
}

/** node:http leaves the parser on the socket; it gives every request to this. */
interface ParsedSocket extends Socket {
  readonly parser?: { onIncoming: ((req: IncomingMessage, keepAlive: boolean) => number) | null } | null;
}

/** Bounds how many requests of HTTP/1.1 connections wait for the answers to those before them. */
export class Pipelines {
  readonly #pipelines = new WeakMap<Socket, Pipeline>();

  /**
   * Whether a request is to be served. One too many is answered as the last of its connection, and what comes after it
   * is passed over: its client is to send that again (RFC 9112, 9.3.2).
   */
  takes(req: IncomingMessage, res: ServerResponse): boolean {
    // Only an answer behind another has no socket yet.
    if (res.socket !== null) return true;
    const { socket } = req;
    let pipeline = this.#pipelines.get(socket);
    if (pipeline === undefined) {
      pipeline = { waiting: 0, isOver: false };
      this.#pipelines.set(socket, pipeline);
    }
    return !pipeline.isOver && take(pipeline, socket, res);
  }
}

function take(pipeline: Pipeline, socket: ParsedSocket, res: ServerResponse): boolean {
  pipeline.waiting++;
  res.once("close", () => {
    pipeline.waiting--;
  });
  if (pipeline.waiting === MAX_WAITING) {
    pipeline.isOver = true;
    res.shouldKeepAlive = false;
    // The rest of the packet is parsed all the same: what is made of it must not be kept.
    if (socket.parser) socket.parser.onIncoming = () => 0;
  }
  return true;
}
