import { openWire } from "@user-group-service/testing/attacks/wire";
import {
  FLAG,
  FRAME,
  frame,
  HELLO,
  numberFrame,
  requestHeaders,
  uint32,
} from "@user-group-service/testing/http2-frames";
import { VARIANTS } from "@user-group-service/testing/variants";
import { waitFor } from "@user-group-service/testing/wait";
import { afterAll, afterEach, describe, expect, it } from "vitest";
import { suiteServer } from "./support/opened.ts";

const PATHS = [
  "/usergroup.v1.UserGroupService/GetUserGroup",
  "/grpc.health.v1.Health/Check",
  "/grpc.health.v1.Health/Watch",
  "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
  "/api/user",
  "/healthz",
  "/metrics",
  "/nowhere",
];
const TYPES = ["application/grpc", "application/connect+json"];
const METHODS = ["POST", "HEAD", "CONNECT"];
const EXPECTATIONS = ["100-continue", "200-ok", undefined];
const GOAWAY = frame(FRAME.goAway, 0, 0, Buffer.concat([uint32(0), uint32(2)]));
const ENDS: readonly [string, (stream: number) => Buffer][] = [
  ["RST_STREAM CANCEL", (stream) => numberFrame(FRAME.reset, stream, 8)],
  ["RST_STREAM NO_ERROR", (stream) => numberFrame(FRAME.reset, stream, 0)],
  ["RST_STREAM INTERNAL_ERROR", (stream) => numberFrame(FRAME.reset, stream, 2)],
  ["DATA and RST_STREAM", (stream) => Buffer.concat([data(stream, 0), numberFrame(FRAME.reset, stream, 8)])],
  ["END_STREAM and RST_STREAM", (stream) => Buffer.concat([data(stream, 1), numberFrame(FRAME.reset, stream, 8)])],
  ["GOAWAY", () => GOAWAY],
];

function data(stream: number, flags: number): Buffer {
  return frame(FRAME.data, flags, stream, Buffer.from([0, 0, 0, 0, 0]));
}

describe.each(VARIANTS)(
  "requests that are reset immediately after they are sent ($runtime, TLS $secure)",
  ({ runtime, tls }) => {
    const server = suiteServer({ runtime, tls });
    afterEach(async () => {
      // After each test, the process must still serve calls.
      const raw = await openWire(server.url);
      raw.push(
        Buffer.concat([HELLO, requestHeaders(1, { ":method": "GET", ":path": "/healthz" }, { endStream: true })]),
      );
      await waitFor("the server responds", () => raw.frames().some(({ type }) => type === FRAME.headers));
      raw.socket.destroy();
    });
    afterAll(() => {
      expect(server.output()).not.toMatch(/ERR_/i);
      expect(server.log().filter(({ msg }) => msg === "request failed")).toEqual([]);
    });

    it.each(ENDS)("reset requests do not stop the server if the client sends %s", async (_title, end) => {
      for (const isFirst of [true, false]) {
        const requests = PATHS.flatMap((path) =>
          TYPES.flatMap((type) =>
            METHODS.flatMap((method) =>
              EXPECTATIONS.map((expect) => ({
                ":method": method,
                ":path": path,
                "content-type": type,
                ...(expect !== undefined && { expect }),
              })),
            ),
          ),
        );
        // The server handles the first packet of a connection differently from later packets.
        const perConnection = isFirst ? 12 : 60;
        const raws = [];
        for (let at = 0; at < requests.length; at += perConnection) {
          const raw = await openWire(server.url);
          raws.push(raw);
          const frames = requests
            .slice(at, at + perConnection)
            .flatMap((fields, i) => [requestHeaders(2 * i + 1, fields), end(2 * i + 1)]);
          if (isFirst) raw.push(Buffer.concat([HELLO, ...frames]));
          else {
            raw.push(HELLO);
            await waitFor("the client has the server's SETTINGS", () => raw.received().length > 0 || raw.isClosed);
            raw.push(Buffer.concat(frames));
          }
          raw.push(frame(FRAME.ping, 0, 0, Buffer.alloc(8)));
        }
        for (const raw of raws) {
          await waitFor("the packet is read", () => raw.isClosed || raw.frames().some(isPong));
          raw.socket.destroy();
        }
      }
    });
  },
);

function isPong({ type, flags }: { type: number; flags: number }): boolean {
  return type === FRAME.ping && (flags & FLAG.ack) !== 0;
}
