import type { ServerResponse } from "node:http";
import { constants, type ServerHttp2Stream } from "node:http2";
import type { Socket } from "node:net";
import { setTimeout } from "node:timers";
import { endConnection } from "./connections.ts";
import type { BudgetEntry, ConnectionUsage, EvictionReason, MemoryBudget } from "./memory-budget.ts";

/** How long a closing connection may take for its last write, in milliseconds. */
const LAST_WRITE_MS = 5000;

/**
 * Counts an HTTP/2 response against the memory budget until the kernel has taken it.
 *
 * @returns the write callback: call it once the response is written
 */
export function trackHttp2Response(stream: ServerHttp2Stream, bytes: number, answers: MemoryBudget): () => void {
  const { session } = stream;
  const answer = new PendingResponse(answers.usageOf(session ?? stream), (reason) => {
    // A stream that is not destroyed waits for the client's flow-control window. A destroyed one waits for the
    // connection.
    if (stream.destroyed) {
      if (session) endConnection(session);
      return;
    }
    stream.close(reason === "timeout" ? constants.NGHTTP2_CANCEL : constants.NGHTTP2_ENHANCE_YOUR_CALM);
    // The connection accepts no new streams. The open ones may finish.
    session?.close();
    // A session without streams closes itself, but first waits for unsent bytes. So does a closed stream.
    const endStuck = () => {
      if (session && (session.destroyed || !stream.destroyed)) endConnection(session);
    };
    setTimeout(endStuck, LAST_WRITE_MS).unref();
  });
  answers.add(answer, bytes);
  return () => answers.remove(answer);
}

/** Counts an HTTP/1.1 response against the memory budget until the kernel has taken it. */
export function trackHttp1Response(socket: Socket, res: ServerResponse, bytes: number, answers: MemoryBudget): void {
  const answer = new PendingResponse(
    answers.usageOf(socket),
    () => socket.destroy(),
    () => {
      // node:http does not tell a response that is queued in a pipeline when its connection closes.
      if (socket.destroyed) answers.remove(answer);
    },
  );
  const done = () => answers.remove(answer);
  res.once("finish", done);
  res.once("close", done);
  answers.add(answer, bytes);
}

/** A response that is not yet fully written. */
class PendingResponse implements BudgetEntry {
  bytes = 0;
  addedAt = 0;
  readonly connection: ConnectionUsage;
  readonly evict: (reason: EvictionReason) => void;
  readonly onTick: (() => void) | undefined;

  constructor(connection: ConnectionUsage, evict: (reason: EvictionReason) => void, onTick?: () => void) {
    this.connection = connection;
    this.evict = evict;
    this.onTick = onTick;
  }
}
