import { type ClientHttp2Session, type ClientHttp2Stream, connect } from "node:http2";
import { brotliCompressSync, brotliDecompressSync, constants, gunzipSync, gzipSync } from "node:zlib";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { envelope, type HttpAnswer, type HttpRequest, http1, http2, rawBytes } from "@user-group-service/testing/http";
import { FLAG, FRAME, frame, framesIn, HELLO, hpackBlock } from "@user-group-service/testing/http2-frames";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { waitFor } from "@user-group-service/testing/wait";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { GetUserGroupRequestSchema, GetUserGroupResponseSchema } from "../gen/usergroup/v1/user_group_service_pb.ts";
import { sharedServer } from "./support/opened.ts";
import { expectRestError } from "./support/rest-shape.ts";

async function answerToBytes(url: string, sent: string): Promise<HttpAnswer> {
  const { bytes, ended } = await rawBytes(url, sent);
  expect(ended).toBe(true);
  const end = bytes.indexOf("\r\n\r\n");
  const [line = "", ...fields] = bytes.subarray(0, end).toString("latin1").split("\r\n");
  const headers = Object.fromEntries(
    fields.map((field) => [field.split(":", 1)[0]?.toLowerCase(), field.slice(field.indexOf(":") + 1).trim()]),
  );
  const body = bytes.subarray(end + 4);
  expect(Number(headers["content-length"])).toBe(body.byteLength);
  expect(headers["connection"]).toBe("close");
  const status = Number(/^HTTP\/1\.1 (\d{3}) \w/.exec(line)?.[1]);
  return { status, headers, trailers: {}, body, json: () => JSON.parse(body.toString()) };
}

type Fields = readonly (readonly [name: string, value: string])[];

/** A REST request whose headers are sent unmodified, including duplicate headers. */
interface RawRequest {
  readonly method: string;
  readonly target: string;
  readonly fields: Fields;
  readonly body?: string;
}

/**
 * Sends a request over both versions of HTTP. Returns one result for each version. If the request failed, the result is
 * the reason of the error. Otherwise, the result is the id of the group.
 */
async function overBoth(url: string, { method, target, fields, body = "" }: RawRequest) {
  const head = [`${method} ${target} HTTP/1.1`, "Host: x", "Connection: close", `Content-Length: ${body.length}`];
  const lines = [...head, ...fields.map(([name, value]) => `${name}: ${value}`), "", body];
  const http1 = rawBytes(url, lines.join("\r\n"));
  const pseudo: Fields = [
    [":method", method],
    [":scheme", "http"],
    [":authority", "x"],
    [":path", target],
  ];
  const sent = [
    HELLO,
    frame(FRAME.headers, FLAG.endHeaders, 1, hpackBlock([...pseudo, ...fields])),
    frame(FRAME.data, FLAG.endStream, 1, Buffer.from(body)),
  ];
  const isOver = (bytes: Buffer) =>
    framesIn(bytes).some(({ type, flags, stream }) => stream === 1 && (type === FRAME.reset || (flags & 1) === 1));
  const http2 = rawBytes(url, Buffer.concat(sent), isOver);
  const [one, two] = [(await http1).bytes, (await http2).bytes];
  const data = framesIn(two).filter(({ type }) => type === FRAME.data);
  const reported = (text: string) => {
    const { error, user_group } = JSON.parse(text);
    return error?.reason ?? user_group.provided_id;
  };
  return {
    http1: reported(one.subarray(one.indexOf("\r\n\r\n") + 4).toString()),
    http2: reported(Buffer.concat(data.map(({ payload }) => payload)).toString()),
  };
}

const MALFORMED = { status: 400, code: "invalid_argument", reason: "MALFORMED_HTTP" };
const TOO_LARGE = { status: 431, code: "resource_exhausted", reason: "HEADER_TOO_LARGE" };
const UNEXPECTED = { status: 417, code: "invalid_argument", reason: "EXPECTATION_FAILED" };

const PATH = "/usergroup.v1.UserGroupService/GetUserGroup";
const TEXT = "again and ".repeat(1000);

interface Watching {
  readonly stream: ClientHttp2Stream;
  bytes: number;
  ended: boolean;
}

describe.each(RUNTIMES)("on the wire of %s", (runtime) => {
  const server = sharedServer({ runtime });

  describe("invalid requests", () => {
    it.each([
      ["bytes that are not HTTP", "hello\r\n\r\n", MALFORMED],
      ["an unknown version", "GET / HTTP/9.9\r\n\r\n", MALFORMED],
      ["a header without a colon", "GET / HTTP/1.1\r\nHost: x\r\nbad\r\n\r\n", MALFORMED],
      [
        "an invalid chunk size",
        "PUT /api/user HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        MALFORMED,
      ],
      ["no host", "GET /healthz HTTP/1.1\r\n\r\n", MALFORMED],
      ["headers that are too large", `GET / HTTP/1.1\r\nHost: x\r\nX: ${"x".repeat(100_000)}\r\n\r\n`, TOO_LARGE],
      [
        "an unsupported Expect header",
        "PUT /api/user HTTP/1.1\r\nHost: x\r\nExpect: foo\r\nContent-Length: 5\r\n\r\n",
        UNEXPECTED,
      ],
    ])("the response to %s is a machine-readable error", async (_title, sent, expected) => {
      expectRestError(await answerToBytes(server.url, sent), expected);
    });

    it("the response to an unsupported Expect header over HTTP/2 is a machine-readable error", async () => {
      const headers = { expect: "foo", "x-request-id": "mine" };
      const answer = await http2(server.url, "/api/user", { method: "PUT", headers, body: "{}" });
      expectRestError(answer, UNEXPECTED);
      expect(answer.headers["x-request-id"]).toBe("mine");
    });

    it("a rejected connection does not affect other connections", async () => {
      await answerToBytes(server.url, "hello\r\n\r\n");
      expect((await http1(server.url, "/healthz")).status).toBe(200);
    });
  });

  describe("a request has the same result over HTTP/1.1 and HTTP/2", () => {
    const json = ["content-type", "application/json"] as const;
    const get = { method: "GET", target: "/api/user?user_group_id=wire", fields: [] };
    const put = { method: "PUT", target: "/api/user", fields: [json], body: '{"user_group_id":"wire"}' };
    const post = { ...put, method: "POST" };
    const twice = (name: string, one: string, other: string): Fields => [
      [name, one],
      [name, other],
    ];
    it.each<readonly [title: string, expected: string, request: (token: string) => RawRequest]>([
      ["Authorization once", "wire", (good) => ({ ...get, fields: [["authorization", good]] })],
      [
        "Authorization twice",
        "API_TOKEN_MALFORMED",
        (good) => ({ ...get, fields: twice("authorization", good, good) }),
      ],
      [
        "Authorization twice, the first one empty",
        "API_TOKEN_MALFORMED",
        (good) => ({ ...get, fields: twice("authorization", "", good) }),
      ],
      [
        "Explo-Authorization twice",
        "API_TOKEN_MALFORMED",
        (good) => ({ ...get, fields: twice("explo-authorization", good, good) }),
      ],
      [
        "a valid Authorization and an invalid Explo-Authorization",
        "wire",
        (good) => ({
          ...get,
          fields: [
            ["explo-authorization", "Token x"],
            ["authorization", good],
          ],
        }),
      ],
      [
        "Content-Type twice",
        "UNSUPPORTED_MEDIA_TYPE",
        (good) => ({ ...put, fields: [["authorization", good], json, ["content-type", "text/plain"]] }),
      ],
      [
        "Content-Encoding twice",
        "UNSUPPORTED_MEDIA_TYPE",
        (good) => ({ ...put, fields: [["authorization", good], json, ...twice("content-encoding", "identity", "br")] }),
      ],
      [
        "two If-Match headers",
        "MALFORMED_REQUEST",
        (good) => ({ ...put, fields: [["authorization", good], json, ...twice("if-match", '"x"', '"y"')] }),
      ],
      [
        "Idempotency-Key twice",
        "VALIDATION_FAILED",
        (good) => ({ ...post, fields: [["authorization", good], json, ...twice("idempotency-key", "a", "b")] }),
      ],
      [
        "a fragment after the query",
        "MALFORMED_HTTP",
        (good) => ({ ...get, target: `${get.target}#fragment`, fields: [["authorization", good]] }),
      ],
      ["a fragment before the query", "MALFORMED_HTTP", () => ({ ...get, target: "/api/user#?user_group_id=wire" })],
    ])("%s", async (_title, expected, request) => {
      const answers = await overBoth(server.url, request(`Token ${server.tokens.customer}`));
      expect(answers).toEqual({ http1: expected, http2: expected });
    });

    it("credentials in trailers of HTTP/1.1 are ignored", async () => {
      const head =
        "GET /api/user?user_group_id=wire HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked";
      const trailer = `Authorization: Token ${server.tokens.customer}`;
      const answer = await answerToBytes(
        server.url,
        `${head}\r\nTrailer: Authorization\r\n\r\n0\r\n${trailer}\r\n\r\n`,
      );
      expect(answer.json<{ error: { reason: string } }>().error.reason).toBe("API_TOKEN_MISSING");
    });

    it("a fragment in a target in absolute form is rejected", async () => {
      const answer = await answerToBytes(
        server.url,
        "GET http://x/healthz#a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
      );
      expectRestError(answer, MALFORMED);
    });
  });

  describe("compression on the wire", () => {
    const post = (headers: HttpRequest["headers"], body: Uint8Array): HttpRequest => ({
      method: "POST",
      headers: { authorization: `Token ${server.tokens.customer}`, ...headers },
      body,
    });
    const message = (userGroupId: string, text = TEXT) =>
      toBinary(GetUserGroupRequestSchema, create(GetUserGroupRequestSchema, { userGroupId, properties: { text } }));
    const propertiesOf = (bytes: Uint8Array) => fromBinary(GetUserGroupResponseSchema, bytes).userGroup?.properties;

    it("compresses long bodies of Connect if the client accepts compression", async () => {
      const headers = { "content-type": "application/proto", "content-encoding": "gzip", "accept-encoding": "gzip" };
      for (const send of [http1, http2]) {
        const long = await send(server.url, PATH, post(headers, gzipSync(message("connect"))));
        expect(long.headers["content-encoding"]).toBe("gzip");
        expect(long.body.byteLength).toBeLessThan(1000);
        expect(propertiesOf(gunzipSync(long.body))).toEqual({ text: TEXT });
        const short = await send(server.url, PATH, post(headers, gzipSync(message("short", "s"))));
        expect(short.headers["content-encoding"]).toBeUndefined();
        expect(propertiesOf(short.body)).toEqual({ text: "s" });
        const plain = await send(server.url, PATH, post({ "content-type": "application/proto" }, message("connect")));
        expect(plain.headers["content-encoding"]).toBeUndefined();
        expect(propertiesOf(plain.body)).toEqual({ text: TEXT });
        const unknown = { "content-type": "application/proto", "content-encoding": "zip" };
        expect((await send(server.url, PATH, post(unknown, message("connect")))).json()).toMatchObject({
          code: "unimplemented",
        });
      }
    });

    it.each(["application/grpc", "application/grpc-web+proto"])(
      "compresses long messages of %s, and sets the compression flag",
      async (type) => {
        const send = type === "application/grpc" ? http2 : http1;
        const headers = {
          "content-type": type,
          te: "trailers",
          "grpc-encoding": "gzip",
          "grpc-accept-encoding": "gzip",
        };
        const long = await send(server.url, PATH, post(headers, envelope(gzipSync(message(type)), 1)));
        expect(long.headers["grpc-encoding"]).toBe("gzip");
        expect(long.body.readUInt8(0)).toBe(1);
        const length = long.body.readUInt32BE(1);
        expect(length).toBeLessThan(1000);
        expect(propertiesOf(gunzipSync(long.body.subarray(5, 5 + length)))).toEqual({ text: TEXT });
        const short = await send(server.url, PATH, post(headers, envelope(message(`${type} short`, "s"))));
        expect(short.body.readUInt8(0)).toBe(0);
        expect(propertiesOf(short.body.subarray(5, 5 + short.body.readUInt32BE(1)))).toEqual({ text: "s" });
      },
    );

    it("uses Brotli with a quality near 4", async () => {
      const text = Array.from({ length: 2000 }, (_, i) => `dashboard ${i * i} of tenant ${i % 7}`).join(", ");
      const headers = { "content-type": "application/proto", "accept-encoding": "br" };
      const { headers: answered, body } = await http2(server.url, PATH, post(headers, message("brotli", text)));
      expect(answered["content-encoding"]).toBe("br");
      const plain = brotliDecompressSync(body);
      const by = (quality: number) => {
        const params = {
          [constants.BROTLI_PARAM_QUALITY]: quality,
          [constants.BROTLI_PARAM_SIZE_HINT]: plain.byteLength,
        };
        return brotliCompressSync(plain, { params }).byteLength;
      };
      // The compressed sizes differ between the runtimes by some bytes.
      expect(Math.abs(body.byteLength - by(4))).toBeLessThan(Math.abs(body.byteLength - by(11)));
    });
  });

  describe("long deadlines", () => {
    let session: ClientHttp2Session;

    beforeAll(() => {
      session = connect(server.url);
      session.on("error", () => {});
    });
    afterAll(() => session.destroy());

    function watch(headers: { readonly [name: string]: string }): Watching {
      const path = "/grpc.health.v1.Health/Watch";
      const stream = session.request({ ":method": "POST", ":path": path, te: "trailers", ...headers });
      const watching: Watching = { stream, bytes: 0, ended: false };
      stream.on("error", () => {});
      stream.on("data", (chunk: Buffer) => {
        watching.bytes += chunk.length;
      });
      stream.once("end", () => {
        watching.ended = true;
      });
      stream.end(Buffer.alloc(5));
      return watching;
    }

    it.each([
      ["application/grpc", "grpc-timeout", "99999999H", "50m"],
      ["application/grpc-web+proto", "grpc-timeout", "99999999H", "50m"],
      ["application/connect+proto", "connect-timeout-ms", "9999999999", "50"],
    ])("a deadline beyond the range of timers does not end a stream of %s early", async (type, name, long, short) => {
      const lasting = watch({ "content-type": type, [name]: long });
      await waitFor("the status has arrived", () => lasting.bytes > 0);
      // The second stream begins after the first stream, but its deadline passes before the deadline of the first
      // stream.
      const passing = watch({ "content-type": type, [name]: short });
      await waitFor("the short deadline has passed", () => passing.ended);
      expect(lasting.ended).toBe(false);
      expect(server.output()).not.toContain("TimeoutOverflow");
      lasting.stream.destroy();
    });
  });
});
