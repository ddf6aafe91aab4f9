import type { Http2Wire } from "@user-group-service/testing/attacks/http2-wire";
import { post } from "@user-group-service/testing/attacks/requests";
import { FLAG, FRAME, frame, hpackBlock, numberFrame } from "@user-group-service/testing/http2-frames";
import { waitFor } from "@user-group-service/testing/wait";
import { PATHS } from "../support/subject.ts";
import { type Attack, describeAttacks, type Target } from "./service.ts";

/**
 * Number of connections, and number of calls on each connection. If so many calls wait, the service stops reading from
 * the connections.
 */
const CONNECTIONS = 64;
const CALLS = 100;

/**
 * Size of a request body, in bytes. Together, the bodies on a connection are several times as large as the flow-control
 * window of the connection.
 */
const BODY_BYTES = 4096;

const PATIENCE_MS = 120_000;

// The API token is unknown. The call queue treats all calls with unknown API tokens as calls of the same caller.
const headers = hpackBlock(post(PATHS.get, "application/json", [["authorization", "Token unknown-0123456789"]]));
const body = Buffer.from('{"userGroupId":"a"}'.padEnd(BODY_BYTES));

function begin(http2: Http2Wire): number[] {
  const streams = Array.from({ length: CALLS }, () => http2.newStream());
  http2.wire.push(Buffer.concat(streams.map((stream) => frame(FRAME.headers, FLAG.endHeaders, stream, headers))));
  return streams;
}

async function complete(http2: Http2Wire, streams: readonly number[]): Promise<void> {
  for (const stream of streams) await http2.data(stream, body, { isEnd: true, patienceMs: PATIENCE_MS });
}

/** Waits until each call has an answer, or until the connection of the call is closed. */
async function answered(http2: Http2Wire, streams: readonly number[]): Promise<void> {
  await waitFor("all calls are answered", () => streams.every((stream) => http2.isEnded(stream)), PATIENCE_MS);
}

function expectAllAnswers({ wire, unanswered }: Http2Wire): void {
  if (wire.isClosed || unanswered > 0)
    throw new Error(`connection closed: ${wire.isClosed}, unanswered: ${unanswered}`);
}

/** Returns an attack in which all calls arrive together. After the calls were sent, runs `then` on each connection. */
function flood(title: string, then: (http2: Http2Wire, streams: readonly number[], i: number) => unknown): Attack {
  return {
    title,
    // Deno does not free all memory of a stream after the stream has ended.
    bounds: { cpuMs: 4, heldKiB: 40_960 },
    isRehearsed: true,
    run: async (target: Target) => {
      const wires = await Promise.all(Array.from({ length: CONNECTIONS }, () => target.http2()));
      await Promise.all(wires.map((http2) => http2.flushed()));
      // While the process is stopped, it reads nothing. When the process resumes, it reads all calls together.
      target.server.signal("SIGSTOP");
      const calls = wires.map(begin);
      const isSent = () => wires.every(({ wire }) => wire.socket.writableLength === 0);
      await waitFor("the calls are sent", isSent).finally(() => target.server.signal("SIGCONT"));
      await Promise.all(wires.map((http2, i) => then(http2, calls[i] as number[], i)));
      let alive = 0;
      // The server must answer one more call on each connection that is still open.
      for (const http2 of wires.filter(({ wire }) => !wire.isClosed)) {
        const last = http2.newStream();
        http2.wire.push(frame(FRAME.headers, FLAG.endHeaders, last, headers));
        await complete(http2, [last]);
        await answered(http2, [last]);
        if (!http2.wire.isClosed) alive++;
        http2.wire.close();
      }
      return { requests: CONNECTIONS * CALLS, outcome: `${alive} connections stay open` };
    },
  };
}

const reset = (stream: number) => numberFrame(FRAME.reset, stream, 8);

describeAttacks("6,400 calls at once", [
  flood("calls that wait for their answers", async (http2, streams) => {
    await complete(http2, streams);
    await answered(http2, streams);
    expectAllAnswers(http2);
  }),
  flood("calls of a client that closes every second connection", async (http2, streams, i) => {
    if (i % 2 === 0) {
      http2.wire.close();
      return;
    }
    await complete(http2, streams);
    await answered(http2, streams);
    expectAllAnswers(http2);
  }),
  flood("calls that are reset, and repeated", async (http2, streams) => {
    http2.wire.push(Buffer.concat(streams.map(reset)));
    const again = begin(http2);
    await complete(http2, again);
    // After so many stream resets, the service may have closed the connection.
    await answered(http2, again);
  }),
]);
