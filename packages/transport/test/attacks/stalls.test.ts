import type { Attack, Target } from "@user-group-service/testing/attacks/attack";
import type { Http2Wire } from "@user-group-service/testing/attacks/http2-wire";
import { authorization, get, head, post, protoField } from "@user-group-service/testing/attacks/requests";
import type { Wire } from "@user-group-service/testing/attacks/wire";
import { envelope } from "@user-group-service/testing/http";
import {
  FLAG,
  FRAME,
  frame,
  hpackBlock,
  numberFrame,
  PREFACE,
  settings,
} from "@user-group-service/testing/http2-frames";
import { descriptorsOf } from "@user-group-service/testing/process-usage";
import { waitFor } from "@user-group-service/testing/wait";
import { PATHS } from "../support/talk-ports.ts";
import { describeAttacks } from "./port.ts";

/**
 * The time in which the server must close a stalled connection, in milliseconds. The limits of the server are between
 * 10 and 30 seconds.
 */
const PATIENCE_MS = 120_000;
const TRICKLE_MS = 500;

/** Opens a stalled connection. `trickle` sends another piece. `isEnded` returns whether the connection is closed. */
type Stall = (target: Target) => Promise<{ readonly trickle?: () => void; readonly isEnded: () => boolean }>;

/** Creates an attack that opens ten stalled connections and waits until the server closes them. */
function stalling(title: string, open: Stall, options: Pick<Attack, "isRehearsed"> = {}): Attack {
  return {
    title,
    ...options,
    bounds: { heldKiB: 1024 },
    run: async (target) => {
      const stalls = await Promise.all(Array.from({ length: 10 }, () => open(target)));
      const timer = setInterval(() => {
        for (const { trickle, isEnded } of stalls) if (!isEnded()) trickle?.();
      }, TRICKLE_MS);
      try {
        const done = () => stalls.every(({ isEnded }) => isEnded());
        await waitFor("the server closes the stalled connection", done, PATIENCE_MS);
      } finally {
        clearInterval(timer);
      }
      return { requests: 10, connections: 10, outcome: "ended" };
    },
  };
}

/**
 * Options of attacks that hold 2 MiB per connection until the connection closes. Allocators keep this memory, so the
 * attack must run once before the measurement.
 */
const AGAIN = { isRehearsed: true };

function trickling(begin: string | Buffer, byte: string | Buffer, open: (target: Target) => Promise<Wire>): Stall {
  return async (target) => {
    const wire = await open(target);
    await wire.send(begin);
    return { trickle: () => wire.push(byte), isEnded: () => wire.isClosed };
  };
}

function stream(begin: (http2: Http2Wire, target: Target) => Promise<number>, window?: number): Stall {
  return async (target) => {
    const http2 = await target.http2({ ...(window !== undefined && { window, reads: false }) });
    const started = await begin(http2, target);
    return {
      trickle: () => http2.wire.push(frame(FRAME.ping, 0, 0, Buffer.alloc(8))),
      isEnded: () => http2.isEnded(started) || http2.isGoingAway,
    };
  };
}

const openHttp1 = (target: Target) => target.http1();
const openHttp2 = async (target: Target) => (await target.http2()).wire;
const callFields = (target: Target) => post(PATHS.say, "application/grpc", [authorization(target)]);

/** Frames that must end the connection (RFC 9113, 5.4.1), even while a stream is open. */
const BREAKING: readonly Buffer[] = [
  Buffer.alloc(400, 0xa9),
  frame(FRAME.headers, FLAG.endHeaders | FLAG.endStream, 2, hpackBlock(get("/healthz"))),
  frame(FRAME.data, FLAG.padded, 1, Buffer.of(200, 1, 2, 3)),
  numberFrame(FRAME.windowUpdate, 0, 0x7fffffff),
  frame(FRAME.settings, 0, 0, Buffer.alloc(5)),
];

/**
 * The client breaks the protocol and closes its connections. After that, the server must use no memory for these
 * connections.
 */
const broken: Attack<{ deadSessionCheckMs: number }> = {
  title: "connections that break the protocol and close (300)",
  bounds: { heldKiB: 256, cpuMs: 40 },
  // On Node 20, some of the connections are closed only by the checks for dead sessions.
  options: { deadSessionCheckMs: 500 },
  run: async (target) => {
    const { pid } = target.server;
    const before = descriptorsOf(pid);
    for (let i = 0; i < 300; i++) {
      const http2 = await target.http2();
      if (i % 2) await http2.request(callFields(target), { isEnd: false });
      await http2.wire.send(BREAKING[i % BREAKING.length] as Buffer);
      await waitFor("the server has detected the violations", () => http2.wire.isClosed || http2.isGoingAway);
      http2.wire.close();
    }
    // The client that measures latencies has open descriptors too.
    await waitFor(
      "the server frees the descriptors of the connections",
      () => descriptorsOf(pid) <= before + 10,
      PATIENCE_MS,
    );
    return { requests: 300, connections: 300, outcome: "closed" };
  },
};

describeAttacks(
  "stalled connections",
  [
    broken,
    stalling("stalls: a silent TCP connection", async (target) => {
      const wire = await target.tcp();
      return { isEnded: () => wire.isClosed };
    }),
    stalling(
      "stalls: a TLS handshake, one byte at a time",
      trickling(Buffer.from("16030102000100", "hex"), "a", (t) => t.tcp()),
    ),
    stalling(
      "stalls: header fields, one byte at a time",
      trickling("GET /healthz HTTP/1.1\r\nHost: a\r\nX: ", "a", openHttp1),
    ),
    stalling("stalls: a body, one byte at a time (HTTP/1.1)", async (target) => {
      const [name, value] = authorization(target);
      const begin = head("PUT", PATHS.talk, { [name]: value, "Content-Length": 100_000 });
      return trickling(begin, " ", openHttp1)(target);
    }),
    stalling("stalls: chunks, one byte at a time (HTTP/1.1)", async (target) => {
      const [name, value] = authorization(target);
      return trickling(
        head("PUT", PATHS.talk, { [name]: value, "Transfer-Encoding": "chunked" }),
        "1\r\n \r\n",
        openHttp1,
      )(target);
    }),
    stalling("stalls: the HTTP/2 preface", async (target) => {
      const wire = await target.http1();
      await wire.send(PREFACE.subarray(0, 10));
      return { isEnded: () => wire.isClosed };
    }),
    stalling(
      "stalls: endless header fields (HTTP/2)",
      trickling(
        Buffer.concat([settings(), frame(FRAME.headers, 0, 1, hpackBlock(get("/healthz")).subarray(0, 10))]),
        Buffer.alloc(0),
        openHttp2,
      ),
    ),
    stalling(
      "stalls: a call without its body (HTTP/2)",
      stream((http2, target) => http2.request(callFields(target), { isEnd: false })),
    ),
    stalling(
      "stalls: a call with one piece of its body (HTTP/2)",
      stream(async (http2, target) => {
        const started = await http2.request(callFields(target), { isEnd: false });
        await http2.data(started, envelope(Buffer.alloc(5000)).subarray(0, 1000));
        return started;
      }),
    ),
    stalling("stalls: the body of a call, one byte at a time (HTTP/2)", async (target) => {
      const http2 = await target.http2();
      const started = await http2.request(callFields(target), { isEnd: false });
      return {
        trickle: () => http2.wire.push(frame(FRAME.data, 0, started, Buffer.alloc(1))),
        isEnded: () => http2.isEnded(started) || http2.isGoingAway,
      };
    }),
    stalling(
      "stalls: an unread answer (HTTP/2)",
      stream(async (http2) => http2.request(get(PATHS.large)), 0),
    ),
    stalling("stalls: an answer read one byte at a time (HTTP/2)", async (target) => {
      const http2 = await target.http2({ window: 0, reads: false });
      const started = await http2.request(get(PATHS.large));
      const more = Buffer.alloc(4);
      more.writeUInt32BE(1);
      return {
        trickle: () => http2.wire.push(frame(FRAME.windowUpdate, 0, started, more)),
        isEnded: () => http2.isEnded(started) || http2.isGoingAway,
      };
    }),
    stalling(
      "stalls: an unread answer (HTTP/1.1)",
      async (target) => {
        const wire = await target.http1();
        wire.socket.pause();
        // The answers are larger than the buffers of the kernel.
        const request = head("GET", PATHS.large, {});
        for (let i = 0; i < 200; i++) wire.push(request);
        const isEnded = () => wire.isClosed || !wire.socket.writable;
        // The client does not read, so the client detects the closed connection only when it writes.
        return { trickle: () => wire.push("\r\n"), isEnded };
      },
      AGAIN,
    ),
    stalling("stalls: the server forgets a call that is reset (HTTP/2)", async (target) => {
      const http2 = await target.http2();
      const started = await http2.request(callFields(target), { isEnd: false });
      await http2.data(started, protoField(1, "a"));
      await http2.wire.send(
        Buffer.concat([
          frame(FRAME.reset, 0, started, Buffer.from([0, 0, 0, 8])),
          frame(FRAME.goAway, 0, 0, Buffer.alloc(8)),
        ]),
      );
      http2.wire.socket.end(frame(FRAME.data, FLAG.endStream, started));
      return { isEnded: () => http2.wire.isClosed };
    }),
  ],
  { isConcurrent: true },
);
