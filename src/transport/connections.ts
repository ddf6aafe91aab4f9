import type { Http2Session } from "node:http2";
import type { Socket } from "node:net";

/** The socket of each HTTP/2 connection: node:http2 hands out one that cannot be ended. */
const sockets = new WeakMap<Http2Session, Socket>();

/** Notes the socket of an HTTP/2 connection. */
export function noteSocket(session: Http2Session, socket: Socket): void {
  sockets.set(session, socket);
}

/** Ends an HTTP/2 connection whose other end does not read: by itself it would wait for what is still to be written. */
export function endConnection(session: Http2Session): void {
  session.destroy();
  sockets.get(session)?.destroy();
}
