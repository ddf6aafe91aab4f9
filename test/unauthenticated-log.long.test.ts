import { unexpectedIn } from "@user-group-service/testing/attacks/unexpected";
import { openWire } from "@user-group-service/testing/attacks/wire";
import { envelope, http2 } from "@user-group-service/testing/http";
import { FLAG, FRAME, frame, HELLO, numberFrame, requestHeaders } from "@user-group-service/testing/http2-frames";
import { VARIANTS } from "@user-group-service/testing/variants";
import { pause, waitFor } from "@user-group-service/testing/wait";
import { describe, expect, it } from "vitest";
import { suiteServer } from "./support/opened.ts";

const PATHS = ["/grpc.health.v1.Health/Watch", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"];

/** A message that is not valid protobuf, because its field has the number 0. */
const MALFORMED = envelope(Buffer.of(0, 0, 0));

interface Leaving {
  readonly path: string;
  readonly type: string;
  readonly body: Buffer;
  readonly pauseMs: number;
  readonly way: "close" | "reset" | "end";
}

describe.each(VARIANTS)("on $runtime, TLS $secure, the error log does not contain", ({ runtime, secure, tls }) => {
  const server = suiteServer({ runtime, tls });

  async function ask(path: string, contentType: string, message: Buffer): Promise<string> {
    const fields = { "content-type": contentType, te: "trailers" };
    const { headers, trailers, body } = await http2(server.url, path, {
      method: "POST",
      headers: fields,
      body: message,
    });
    return JSON.stringify([headers, trailers]) + body.toString("latin1");
  }

  /** Sends a request over HTTP/1.1 and HTTP/2, and disconnects before the response. */
  async function leave({ path, type, body, pauseMs, way }: Leaving): Promise<void> {
    const [overHttp1, overHttp2] = [await openWire(server.url, "http/1.1"), await openWire(server.url, "h2")];
    const length = `Content-Length: ${body.length + 1}`;
    const head = `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: ${type}\r\n${length}\r\n\r\n`;
    overHttp1.push(Buffer.concat([Buffer.from(head), body]));
    const headers = requestHeaders(1, { ":path": path, "content-type": type });
    overHttp2.push(Buffer.concat([HELLO, headers, frame(FRAME.data, pauseMs === 5 ? FLAG.endStream : 0, 1, body)]));
    await new Promise((resolve) => (pauseMs === 0 ? resolve(undefined) : setTimeout(resolve, pauseMs)));
    if (way === "end") for (const { socket } of [overHttp1, overHttp2]) socket.end();
    else if (way === "reset") {
      overHttp2.push(numberFrame(FRAME.reset, 1, pauseMs === 0 ? 2 : 8));
      if (!secure) overHttp1.socket.resetAndDestroy();
    } else for (const { socket } of [overHttp1, overHttp2]) socket.destroy();
    await pause(100);
    for (const { socket } of [overHttp1, overHttp2]) socket.destroy();
  }

  it.each(PATHS)("malformed messages to %s", async (path) => {
    for (const body of [MALFORMED, MALFORMED.subarray(0, 7), envelope(Buffer.alloc(0), 1), Buffer.of(1, 2)]) {
      expect(await ask(path, "application/grpc", body)).toMatch(/"grpc-status":"(?:3|12|13)"/);
    }
    expect(await ask(path, "application/grpc", MALFORMED)).toContain('"grpc-status":"3"');
    expect(await ask(path, "application/grpc-web+proto", MALFORMED)).toContain("grpc-status: 3");
    expect(await ask(path, "application/connect+proto", MALFORMED)).toContain('"code":"invalid_argument"');
    expect(await ask(path, "application/connect+json", envelope(Buffer.from("{")))).toContain("invalid_argument");
    await pause(100);
    expect(unexpectedIn(server)).toEqual([]);
  });

  it.each(PATHS)("clients of %s that disconnect", async (path) => {
    const types = ["application/connect+proto", "application/grpc-web+proto", "application/grpc"];
    const bodies = [Buffer.alloc(0), Buffer.of(0, 0), envelope(Buffer.alloc(0)), MALFORMED];
    for (const type of types) {
      const gone = bodies.flatMap((body) =>
        [0, 5, 50].flatMap((pauseMs) =>
          (["close", "reset", "end"] as const).map((way) => leave({ path, type, body, pauseMs, way })),
        ),
      );
      await Promise.all(gone);
    }
    const inFlight = async () => [
      ...(await ask("/metrics", "text/plain", Buffer.alloc(0))).matchAll(/_in_flight\{[^}]*\} (\d+)/g),
    ];
    await waitFor("all calls have ended", async () => (await inFlight()).every(([, count]) => count === "0"));
    expect(unexpectedIn(server)).toEqual([]);
  });
});
