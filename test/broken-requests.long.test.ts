import { envelope, http1, http2, rawBytes } from "@user-group-service/testing/http";
import { frame, framesIn, hpackField, PREFACE } from "@user-group-service/testing/http2-frames";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { afterEach, describe, expect, it } from "vitest";
import { suiteServer } from "./support/opened.ts";

const GET_PATH = "/usergroup.v1.UserGroupService/GetUserGroup";
const REFLECTION_PATH = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";

describe.each(RUNTIMES)("broken requests on %s", (runtime) => {
  const server = suiteServer({ runtime });
  afterEach(async () => {
    // After every case, the process must still serve calls.
    const headers = { authorization: `Token ${server.tokens.customer}` };
    expect((await http1(server.url, "/api/user?user_group_id=alive", { headers })).status).toBe(200);
    expect((await http2(server.url, "/healthz")).status).toBe(200);
  });

  describe("invalid hosts", () => {
    const paths = [
      "/healthz",
      "/api/user?user_group_id=host",
      GET_PATH,
      REFLECTION_PATH,
      "/grpc.health.v1.Health/Watch",
      "/x",
    ];

    it.each(paths)("requests without a valid host receive a response over HTTP/1.0 at %s", async (path) => {
      const authorization = `Authorization: Token ${server.tokens.customer}\r\n`;
      const heads = [
        ["GET", ""],
        ["POST", "Content-Type: application/json\r\n"],
        ["POST", "Content-Type: application/connect+json\r\n"],
        ["POST", "Content-Type: application/grpc-web\r\n"],
      ];
      const hosts = ["", "Host: \r\n", "Host: a b\r\n", "Host: [::\r\n", "Host: :99999\r\n", "Host: ///\r\n"];
      const requests = hosts.flatMap((host) =>
        heads.map(
          ([method, type]) => `${method} ${path} HTTP/1.0\r\n${host}${type}${authorization}Content-Length: 2\r\n\r\n{}`,
        ),
      );
      const answers = await Promise.all(requests.map((request) => rawBytes(server.url, request)));
      // Connect responds with 505 if the RPC is a stream that needs HTTP/2.
      for (const { bytes } of answers) expect(bytes.toString()).toMatch(/^HTTP\/1\.1 (?:[2-4]\d\d|505) /);
    });

    it.each(paths)("requests without a valid host receive a response over HTTP/2 at %s", async (path) => {
      const requests = [undefined, "", "a b", "[::", ":99999"].flatMap((authority) =>
        ["application/grpc", "application/json", "application/connect+json"].map((type) => {
          const fields = [
            hpackField(":method", "POST"),
            hpackField(":scheme", "http"),
            hpackField(":path", path),
            ...(authority === undefined ? [] : [hpackField(":authority", authority)]),
            hpackField("content-type", type),
          ];
          const frames = [
            frame(4, 0, 0),
            frame(1, 4, 1, Buffer.concat(fields)),
            frame(0, 1, 1, envelope(Buffer.alloc(0))),
          ];
          return Buffer.concat([PREFACE, ...frames]);
        }),
      );
      const answers = await Promise.all(requests.map((request) => rawBytes(server.url, request, isAnswered)));
      expect(answers.map(({ bytes }) => isAnswered(bytes))).not.toContain(false);
    });
  });

  it.each([
    ["no settings", [frame(1, 5, 1, Buffer.from([0x82, 0x86, 0x84]))]],
    ["headers that are not HPACK", [frame(4, 0, 0), frame(1, 5, 1, Buffer.alloc(40, 0xff))]],
    ["a frame that is too large", [frame(4, 0, 0), frame(0, 0, 1, Buffer.alloc(100_000))]],
    ["data on a closed stream", [frame(4, 0, 0), frame(0, 0, 7, Buffer.alloc(3))]],
    ["an even stream id", [frame(4, 0, 0), frame(1, 5, 2, Buffer.from([0x82, 0x86, 0x84]))]],
    ["settings with an invalid length", [frame(4, 0, 0, Buffer.alloc(5))]],
    ["a window of zero", [frame(4, 0, 0), frame(8, 0, 0, Buffer.alloc(4))]],
    ["unknown frame types", [frame(4, 0, 0), frame(0xee, 0xff, 0, Buffer.alloc(9)), frame(7, 0, 0, Buffer.alloc(8))]],
    ["no method and no path", [frame(4, 0, 0), frame(1, 5, 1, hpackField("content-type", "application/grpc"))]],
  ])("a request over HTTP/2 with %s receives a response, or leaves the connection usable", async (_title, frames) => {
    // If the server ignores the frames, it must still answer a PING.
    const sent = Buffer.concat([PREFACE, ...frames, frame(6, 0, 0, Buffer.alloc(8))]);
    const { bytes } = await rawBytes(server.url, sent, (soFar) => isAnswered(soFar) || isPonged(soFar));
    expect(isAnswered(bytes) || isPonged(bytes)).toBe(true);
    expect(bytes.toString("latin1")).not.toMatch(/\bat |node:|Error:/);
  });
});

function isAnswered(bytes: Buffer): boolean {
  return framesIn(bytes).some(({ type, stream }) => type === 7 || (stream === 1 && (type === 1 || type === 3)));
}

function isPonged(bytes: Buffer): boolean {
  return framesIn(bytes).some(({ type, flags }) => type === 6 && flags === 1);
}
