import type { ServerResponse } from "node:http";
import type { ServerHttp2Stream } from "node:http2";

/**
 * Whether whoever is to be answered is gone, by a response or stream of node:http or node:http2: what fails then fails
 * because of that. Anybody can be gone at any moment; an error in the log for each would fill it.
 */
export function isGone(answer: ServerResponse | ServerHttp2Stream): boolean {
  const { destroyed, closed, stream, socket } = answer as Partial<ServerHttp2Stream> & {
    readonly stream?: Pick<ServerHttp2Stream, "destroyed" | "closed">;
    readonly socket?: { readonly destroyed: boolean } | null;
  };
  if (destroyed || closed) return true;
  if (stream !== undefined) return stream.destroyed || stream.closed;
  return socket?.destroyed === true;
}
