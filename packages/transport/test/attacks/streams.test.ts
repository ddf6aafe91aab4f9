import { create, toBinary } from "@bufbuild/protobuf";
import type { Target } from "@user-group-service/testing/attacks/attack";
import type { Http2Wire } from "@user-group-service/testing/attacks/http2-wire";
import { crowd, unread } from "@user-group-service/testing/attacks/repeated";
import { authorization, get, post } from "@user-group-service/testing/attacks/requests";
import { envelope } from "@user-group-service/testing/http";
import {
  FLAG,
  FRAME,
  frame,
  hpackBlock,
  hpackField,
  numberFrame,
  settings,
} from "@user-group-service/testing/http2-frames";
import { pause } from "@user-group-service/testing/wait";
import { TalkSchema } from "../gen/talk/v1/talk_pb.ts";
import { PATHS } from "../support/talk-ports.ts";
import { describeAttacks } from "./port.ts";

const PER_WRITE = 500;

/**
 * Sends up to `times` buffers, which `bytes` creates. Stops if the server closes the connection. Returns the number of
 * sent buffers, but at least 1.
 */
async function flood(http2: Http2Wire, times: number, bytes: (i: number) => Buffer): Promise<number> {
  let sent = 0;
  while (sent < times && !http2.isGoingAway) {
    const some = Array.from({ length: Math.min(PER_WRITE, times - sent) }, (_, i) => bytes(sent + i));
    if (!(await http2.wire.send(Buffer.concat(some)))) break;
    sent += some.length;
  }
  await http2.flushed();
  return Math.max(1, sent);
}

function outcomeOf(http2: Http2Wire): string {
  return http2.wire.isClosed || http2.isGoingAway ? "the server closes the connection" : "ignored";
}

function floodOf(title: string, times: number, cpuMs: number, bytes: (http2: Http2Wire, i: number) => Buffer) {
  return {
    title,
    bounds: { cpuMs, heldKiB: 8192 },
    run: async (target: Target) => {
      const http2 = await target.http2();
      const sent = await flood(http2, times, (i) => bytes(http2, i));
      return { requests: sent, connections: 1, outcome: outcomeOf(http2) };
    },
  };
}

const health = hpackBlock(get("/healthz"));
const call = hpackBlock(post(PATHS.say, "application/grpc"));

describeAttacks("floods of frames", [
  floodOf("streams reset immediately after their headers (30,000)", 30_000, 1, (http2) => {
    const stream = http2.newStream();
    const headers = frame(FRAME.headers, FLAG.endHeaders | FLAG.endStream, stream, health);
    return Buffer.concat([headers, numberFrame(FRAME.reset, stream, 8)]);
  }),
  floodOf("calls reset before their body (30,000)", 30_000, 1, (http2) => {
    const stream = http2.newStream();
    const headers = frame(FRAME.headers, FLAG.endHeaders, stream, call);
    return Buffer.concat([headers, numberFrame(FRAME.reset, stream, 8)]);
  }),
  floodOf("streams that the server must reset (30,000)", 30_000, 1, (http2) => {
    const stream = http2.newStream();
    // A WINDOW_UPDATE of 0 is a stream error.
    return Buffer.concat([
      frame(FRAME.headers, FLAG.endHeaders, stream, call),
      numberFrame(FRAME.windowUpdate, stream, 0),
    ]);
  }),
  floodOf("SETTINGS (50,000)", 50_000, 0.2, () => settings([4, 65_535])),
  floodOf("PING (50,000)", 50_000, 0.2, () => frame(FRAME.ping, 0, 0, Buffer.alloc(8))),
  floodOf("PRIORITY (50,000)", 50_000, 0.2, (_http2, i) =>
    frame(FRAME.priority, 0, (i * 2 + 1) & 0xffff, Buffer.alloc(5)),
  ),
  floodOf("WINDOW_UPDATE (50,000)", 50_000, 0.2, () => numberFrame(FRAME.windowUpdate, 0, 1)),
  floodOf("frames of unknown types (50,000)", 50_000, 0.2, () => frame(0xee, 0, 0, Buffer.alloc(16))),
  {
    title: "PINGs whose answers the client does not read (2,000,000)",
    bounds: { heldKiB: 16_384 },
    run: async (target) => {
      const http2 = await target.http2();
      http2.wire.socket.pause();
      const pings = Buffer.concat(Array.from({ length: 10_000 }, () => frame(FRAME.ping, 0, 0, Buffer.alloc(8))));
      for (let i = 0; i < 200 && !http2.wire.isClosed; i++) http2.wire.push(pings);
      await pause(2000);
      return { outcome: outcomeOf(http2) };
    },
  },
  {
    title: "endless CONTINUATION (16 MiB)",
    bounds: { heldKiB: 8192, cpuMs: 1000 },
    run: async (target) => {
      const http2 = await target.http2();
      await http2.wire.send(frame(FRAME.headers, 0, http2.newStream(), call));
      for (let i = 0; i < 1000 && !http2.isGoingAway; i++) {
        const block = hpackField("x-many", "y".repeat(16_000));
        if (!(await http2.wire.send(frame(FRAME.continuation, 0, 1, block)))) break;
      }
      return { outcome: outcomeOf(http2) };
    },
  },
  {
    title: "empty CONTINUATION (200,000)",
    bounds: { heldKiB: 8192, cpuMs: 1000 },
    run: async (target) => {
      const http2 = await target.http2();
      await http2.wire.send(frame(FRAME.headers, 0, http2.newStream(), call));
      const empty = Buffer.concat(Array.from({ length: 1000 }, () => frame(FRAME.continuation, 0, 1)));
      for (let i = 0; i < 200 && !http2.isGoingAway; i++) if (!(await http2.wire.send(empty))) break;
      return { outcome: outcomeOf(http2) };
    },
  },
  {
    title: "one 4 KB field referenced 4,000 times by its index (16 MB a request)",
    bounds: { heldKiB: 16_384, cpuMs: 100 },
    run: async (target) => {
      const http2 = await target.http2();
      const first = Buffer.concat([health, hpackField("x-large", "x".repeat(3900), true)]);
      await http2.wire.send(frame(FRAME.headers, FLAG.endHeaders, http2.newStream(), first));
      let sent = 1;
      for (; sent < 50 && !http2.isGoingAway; sent++) {
        // Index 62 is the first entry of the dynamic table.
        const block = Buffer.concat([health, Buffer.alloc(4000, 0x80 | 62)]);
        if (!(await http2.wire.send(frame(FRAME.headers, FLAG.endHeaders, http2.newStream(), block)))) break;
      }
      await http2.flushed();
      return { requests: sent, outcome: outcomeOf(http2) };
    },
  },
  {
    title: "empty DATA (200,000)",
    bounds: { heldKiB: 8192, cpuMs: 3000 },
    run: async (target) => {
      const http2 = await target.http2();
      const stream = await http2.request(post(PATHS.say, "application/grpc", [authorization(target)]), {
        isEnd: false,
      });
      await flood(http2, 200_000, () => frame(FRAME.data, 0, stream));
      return { requests: 1, outcome: outcomeOf(http2) };
    },
  },
  {
    title: "DATA that is only padding (20,000)",
    bounds: { heldKiB: 8192, cpuMs: 2000 },
    run: async (target) => {
      const http2 = await target.http2();
      const stream = await http2.request(post(PATHS.say, "application/grpc", [authorization(target)]), {
        isEnd: false,
      });
      await flood(http2, 20_000, () => frame(FRAME.data, FLAG.padded, stream, Buffer.alloc(256).fill(255, 0, 1)));
      return { requests: 1, outcome: outcomeOf(http2) };
    },
  },
]);

describeAttacks("streams", [
  {
    title: "`Watch` on 100 streams of each of 80 connections",
    // The server accepts a thousand of these streams. Each stream takes about 75 KiB.
    bounds: { heldKiB: 2048, cpuMs: 8 },
    run: (target) =>
      crowd(
        80,
        () => target.http2(),
        async (http2) => {
          const stream = await http2.request(post(PATHS.watch, "application/grpc"), { isEnd: false });
          await http2.data(stream, envelope(Buffer.alloc(0)), { isEnd: true, patienceMs: 1000 });
        },
      ),
  },
  {
    title: "unread answers of 150 KB (100 on each of 20 connections)",
    // On Node, `RESPONSE_BYTES` limits the memory. On Deno, abandoned answers stay until garbage collection, and the
    // allocator keeps their memory. The next attack shows that Deno reuses this memory.
    bounds: { heldKiB: 16_384 },
    run: unreadLarge,
  },
  {
    title: "unread answers of 150 KB, a second time",
    isRehearsed: true,
    // If abandoned responses stayed in memory, each attack would add 10 MiB per connection.
    bounds: { heldKiB: 6144 },
    run: unreadLarge,
  },
  {
    title: "unread answers of 60 KB to a token holder (100 on each of 20 connections)",
    bounds: { heldKiB: 10_240 },
    run: async (target) => {
      const fields = post(PATHS.say, "application/proto", [authorization(target)]);
      return unread(target, async (http2) => {
        const stream = await http2.request(fields, { isEnd: false });
        await http2.data(stream, sayOf(60_000), { isEnd: true, patienceMs: 1000 });
      });
    },
  },
]);

function sayOf(bytes: number): Uint8Array {
  return toBinary(TalkSchema, create(TalkSchema, { number: BigInt(bytes) }));
}

function unreadLarge(target: Target) {
  return unread(target, (http2) => http2.request(get(PATHS.large)));
}
