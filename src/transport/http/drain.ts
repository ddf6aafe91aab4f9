import type { IncomingMessage, ServerResponse } from "node:http";
import { constants, type ServerHttp2Stream } from "node:http2";
import type { Socket } from "node:net";
import type { ConnectionHoldings, GiveUpReason, Held, Holdings } from "./holdings.ts";
import { MAX_DROPPED_BYTES } from "./limits.ts";

/**
 * Reads what is still to come of an HTTP/2 request that is answered, and drops
 * it. A paused stream would never be destroyed, and its bytes would stay taken
 * from the connection's window. A stream that is reset at once would keep some
 * clients from seeing the answer; so it is reset when too much came, or for too
 * long.
 */
export function dropRestHttp2(stream: ServerHttp2Stream, rests: Holdings): void {
  if (stream.destroyed || stream.readableEnded) return;
  // Whoever was reading has lost interest. A request made of the stream would keep what comes, then pause the stream.
  stream.removeAllListeners("data");
  const rest = new Rest(rests.of(stream.session ?? stream), () => stream.close(constants.NGHTTP2_NO_ERROR));
  let left = MAX_DROPPED_BYTES;
  stream.on("data", (chunk: Uint8Array) => {
    left -= chunk.byteLength;
    if (left < 0 && rests.remove(rest)) rest.giveUp();
  });
  const done = () => rests.remove(rest);
  stream.once("end", done);
  stream.once("close", done);
  rests.add(rest, 0);
  stream.resume();
}

/**
 * Reads what is still to come of an HTTP/1.1 request that is answered, and
 * drops it: closing the connection with bytes unread may lose the answer on
 * its way. One that goes on for too long is ended by node:http.
 */
export function dropRestHttp1(req: IncomingMessage): void {
  if (req.destroyed || req.readableEnded) return;
  // Whoever was reading has lost interest; a listener of this kind would keep what comes from being dropped.
  req.removeAllListeners("readable");
  let left = MAX_DROPPED_BYTES;
  req.on("data", (chunk: Uint8Array) => {
    left -= chunk.byteLength;
    if (left < 0) req.destroy();
  });
  req.resume();
}

/** How long a connection that is ended is read on, in milliseconds. */
const LINGER_MS = 5000;

/**
 * Ends an HTTP/1.1 connection with its answer where that begins before the
 * request has come, for whoever answers then lets go of the request: node:http
 * would never read on, and the connection's next request would wait behind the
 * rest of this one. The answer says so: a caller who kept the connection for
 * another call would lose that.
 */
export function endIfEarlyHttp1(req: IncomingMessage, res: ServerResponse): void {
  const { socket } = req;
  const { writeHead } = res;
  res.writeHead = ((...args: never[]) => {
    if (!req.complete) {
      res.setHeader("connection", "close");
      // node:http would close at once.
      (socket as Socket & { destroySoon?: () => void }).destroySoon = () => endHttp1(socket);
    }
    return Reflect.apply(writeHead, res, args);
  }) as never;
  res.once("finish", () => {
    if (!req.complete && !socket.writableEnded) endHttp1(socket);
  });
}

/**
 * Ends an HTTP/1.1 connection. What still comes is dropped, up to a bound:
 * closing at once may lose the answer.
 *
 * @param last what is written before
 */
export function endHttp1(socket: Socket, last?: Uint8Array): void {
  if (socket.destroyed) return;
  const timer = setTimeout(() => socket.destroy(), LINGER_MS);
  socket.once("close", () => clearTimeout(timer));
  // The parser's; it stops the socket when nobody takes what it parses.
  socket.removeAllListeners("data");
  let left = MAX_DROPPED_BYTES;
  socket.on("data", (chunk: Uint8Array) => {
    left -= chunk.byteLength;
    if (left < 0) socket.destroy();
  });
  if (last) socket.end(last);
  else socket.end();
  socket.resume();
}

/** The rest of a request, on its way to nowhere. */
class Rest implements Held {
  bytes = 0;
  since = 0;
  readonly connection: ConnectionHoldings;
  readonly giveUp: (reason?: GiveUpReason) => void;

  constructor(connection: ConnectionHoldings, giveUp: () => void) {
    this.connection = connection;
    this.giveUp = giveUp;
  }
}
