import type { ServerResponse } from "node:http";
import { constants, type Http2Session, type ServerHttp2Stream } from "node:http2";
import type { Socket } from "node:net";
import { setTimeout } from "node:timers";
import { endConnection } from "./connections.ts";
import type { ConnectionHoldings, GiveUpReason, Held, Holdings } from "./holdings.ts";

/** How long a connection that ends may take for its last write, in milliseconds. */
const LAST_WRITE_MS = 5000;

/**
 * Bounds what an answer that is being written over HTTP/2 takes, and how long.
 *
 * @returns what is to be called once the system has taken it
 */
export function holdHttp2Answer(stream: ServerHttp2Stream, bytes: number, answers: Holdings): () => void {
  const { session } = stream;
  const answer = new UnreadAnswer(answers.of(session ?? stream), (reason) => {
    // A stream that is not destroyed waits for its caller's window, else for the connection itself.
    if (stream.destroyed) {
      if (session) endConnection(session);
      return;
    }
    stream.close(reason === "late" ? constants.NGHTTP2_CANCEL : constants.NGHTTP2_ENHANCE_YOUR_CALM);
    // Its connection takes no new ones; those that are there may still end, each in its own time.
    session?.close();
    if (session) endLaterIfStuck(session, new WeakRef(stream));
  });
  answers.add(answer, bytes);
  return () => answers.remove(answer);
}

/**
 * Ends a connection if it does not end by itself: without streams it does, but waits for what the system has not taken;
 * so does a stream that is closed.
 *
 * @param stream is held by its session until it is destroyed, and by nobody after that: with it goes what it was to write
 */
function endLaterIfStuck(session: Http2Session, stream: WeakRef<ServerHttp2Stream>): void {
  const endStuck = () => {
    if (session.destroyed || stream.deref()?.destroyed === false) endConnection(session);
  };
  setTimeout(endStuck, LAST_WRITE_MS).unref();
}

/** Bounds what an answer over HTTP/1.1 takes that the system has not taken at once, and how long. */
export function holdHttp1Answer(socket: Socket, res: ServerResponse, bytes: number, answers: Holdings): void {
  const answer = new UnreadAnswer(
    answers.of(socket),
    () => socket.destroy(),
    () => {
      // An answer behind others in a pipeline is not told that its connection was closed.
      if (socket.destroyed) answers.remove(answer);
    },
  );
  const done = () => answers.remove(answer);
  res.once("finish", done);
  res.once("close", done);
  answers.add(answer, bytes);
}

/** An answer that has not left. */
class UnreadAnswer implements Held {
  bytes = 0;
  since = 0;
  readonly connection: ConnectionHoldings;
  readonly giveUp: (reason: GiveUpReason) => void;
  readonly tend: (() => void) | undefined;

  constructor(connection: ConnectionHoldings, giveUp: (reason: GiveUpReason) => void, tend?: () => void) {
    this.connection = connection;
    this.giveUp = giveUp;
    this.tend = tend;
  }
}
