import type { ServerResponse } from "node:http";
import type { ServerHttp2Stream } from "node:http2";

/** The `error` listener of requests and responses: such errors mean that the client disconnected. */
export function ignore(): void {}

/**
 * Whether the client of a response or stream has disconnected. A failure after that is its consequence, and is not
 * logged: clients may disconnect at any moment, and one error each would flood the log.
 */
export function isDisconnected(response: ServerResponse | ServerHttp2Stream): boolean {
  const { destroyed, closed, stream, socket } = response as Partial<ServerHttp2Stream> & {
    readonly stream?: Pick<ServerHttp2Stream, "destroyed" | "closed">;
    readonly socket?: { readonly destroyed: boolean } | null;
  };
  if (destroyed || closed) return true;
  if (stream !== undefined) return stream.destroyed || stream.closed;
  return socket?.destroyed === true;
}
