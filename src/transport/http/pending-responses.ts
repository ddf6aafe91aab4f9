import type { ServerResponse } from "node:http";
import { constants, type Http2Session, type ServerHttp2Stream } from "node:http2";
import type { Socket } from "node:net";
import { setTimeout } from "node:timers";
import { endConnection } from "./connections.ts";
import type { EvictionReason, MemoryBudget, MemoryHolder } from "./memory-budget.ts";

/** How long a closing connection may take for its last write, in milliseconds. */
const LAST_WRITE_MS = 5000;

/**
 * Counts an HTTP/2 response against the memory budget until the kernel has taken it.
 *
 * @returns the write callback: call it once the response is written
 */
export function trackHttp2Response(stream: ServerHttp2Stream, bytes: number, answers: MemoryBudget): () => void {
  const { session } = stream;
  const evict = (reason: EvictionReason) => {
    // A stream that is not destroyed waits for the client's flow-control window. A destroyed one waits for the
    // connection.
    if (stream.destroyed) {
      if (session) endConnection(session);
      return;
    }
    stream.close(reason === "timeout" ? constants.NGHTTP2_CANCEL : constants.NGHTTP2_ENHANCE_YOUR_CALM);
    // The connection accepts no new streams. The open ones may finish.
    session?.close();
    if (session) endLaterIfStuck(session, new WeakRef(stream));
  };
  const answer = { connection: session ?? stream, evict };
  answers.add(answer, bytes);
  return () => answers.remove(answer);
}

/**
 * Ends a connection that does not close by itself: a session without streams closes, but first waits for unsent bytes.
 * So does a closed stream.
 *
 * @param stream held weakly: its session holds it until it is destroyed, and after that its unsent bytes are to be freed
 */
function endLaterIfStuck(session: Http2Session, stream: WeakRef<ServerHttp2Stream>): void {
  const endStuck = () => {
    if (session.destroyed || stream.deref()?.destroyed === false) endConnection(session);
  };
  setTimeout(endStuck, LAST_WRITE_MS).unref();
}

/** Counts an HTTP/1.1 response against the memory budget until the kernel has taken it. */
export function trackHttp1Response(socket: Socket, res: ServerResponse, bytes: number, answers: MemoryBudget): void {
  const done = () => answers.remove(answer);
  const answer: MemoryHolder = {
    connection: socket,
    evict: () => socket.destroy(),
    onTick: () => {
      // node:http does not tell a response that is queued in a pipeline when its connection closes.
      if (socket.destroyed) done();
    },
  };
  res.once("finish", done);
  res.once("close", done);
  answers.add(answer, bytes);
}
