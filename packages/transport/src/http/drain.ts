import type { IncomingMessage } from "node:http";
import { constants, type ServerHttp2Stream } from "node:http2";
import type { Socket } from "node:net";
import type { Readable } from "node:stream";
import { MAX_DISCARDED_BYTES } from "../limits.ts";

/**
 * Reads and discards the rest of an HTTP/2 request that is already answered. A paused stream would never be destroyed,
 * and its bytes would stay counted against the connection's flow-control window. Resetting the stream at once would
 * keep some clients from seeing the response, so it is reset only when too many bytes arrive; its exchange is charged for
 * it, and ends it when it takes too long.
 */
export function discardBodyHttp2(stream: ServerHttp2Stream): void {
  if (stream.destroyed || stream.readableEnded) return;
  // The former reader needs no more data. A request object of the stream would buffer the data and then pause the
  // stream.
  stream.removeAllListeners("data");
  discard(stream, () => stream.close(constants.NGHTTP2_NO_ERROR));
}

/**
 * Reads and discards the rest of an HTTP/1.1 request that is already answered. Closing the connection with unread bytes
 * could lose the response on its way. node:http ends a request that takes too long.
 */
export function discardBodyHttp1(req: IncomingMessage): void {
  if (req.destroyed || req.readableEnded) return;
  // The former reader needs no more data. A `readable` listener would keep the data from flowing.
  req.removeAllListeners("readable");
  discard(req, () => req.destroy());
}

/** Reads and discards what arrives, up to 16 MiB. @param onTooMuch called with each chunk after that */
function discard(source: Readable, onTooMuch: () => void): void {
  let left = MAX_DISCARDED_BYTES;
  source.on("data", (chunk: Uint8Array) => {
    left -= chunk.byteLength;
    if (left < 0) onTooMuch();
  });
  source.resume();
}

/** How long a closing connection is still read, in milliseconds. */
const LINGER_MS = 5000;

/**
 * Closes an HTTP/1.1 connection. Discards up to 16 MiB of what still arrives, because closing at once could lose the
 * response.
 *
 * @param last bytes to write before closing
 */
export function endHttp1(socket: Socket, last?: Uint8Array): void {
  if (socket.destroyed) return;
  const timer = setTimeout(() => socket.destroy(), LINGER_MS);
  socket.once("close", () => clearTimeout(timer));
  // This removes the listener of the HTTP parser, which would pause the socket when nobody consumes the parsed request.
  socket.removeAllListeners("data");
  discard(socket, () => socket.destroy());
  if (last) socket.end(last);
  else socket.end();
}
