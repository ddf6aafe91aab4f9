import { openWire } from "@user-group-service/testing/attacks/wire";
import { answerOn, envelope, openHttp2, pinged } from "@user-group-service/testing/http";
import { VARIANTS } from "@user-group-service/testing/variants";
import { waitFor } from "@user-group-service/testing/wait";
import { describe, expect, it } from "vitest";
import { STREAMS } from "../src/domain/capacity.ts";
import { suiteServer } from "./support/opened.ts";

const WATCH = "/grpc.health.v1.Health/Watch";
const REFLECTION = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";

describe.each(VARIANTS)("streams on $runtime, TLS $secure", ({ runtime, tls }) => {
  const server = suiteServer({ runtime, tls });

  it("a stream ends with an error in the format of its protocol if the client has too many streams", async () => {
    const session = openHttp2(server.url);
    const sessions = [session];
    const open = async (contentType: string, path: string, { on = session, ends = true } = {}) => {
      const fields = { ":method": "POST", ":path": path, "content-type": contentType, te: "trailers" };
      const stream = on.request(fields, { endStream: false });
      if (ends) stream.end(envelope(Buffer.alloc(0)));
      const { headers, trailers, body } = await answerOn(stream);
      return { headers: { ...headers, ...trailers }, body };
    };
    const kept: ReturnType<typeof open>[] = [];
    for (let left = STREAMS.max; left > 0; left -= 100) {
      const full = openHttp2(server.url);
      sessions.push(full);
      for (let i = 0; i < 50; i++) {
        kept.push(open("application/grpc", WATCH, { on: full }));
        // The server ends a reflection stream when the request ends. To keep the stream open, do not end the request.
        kept.push(open("application/grpc", REFLECTION, { on: full, ends: false }));
      }
      await pinged(full);
    }
    for (const path of [WATCH, REFLECTION]) {
      for (const type of ["application/grpc", "application/grpc+proto"]) {
        const { headers, body } = await open(type, path);
        expect(headers).toMatchObject({ ":status": 200, "content-type": "application/grpc+proto", "grpc-status": "8" });
        expect(body).toHaveLength(0);
      }
      const web = await open("application/grpc-web+proto", path);
      expect(web.headers).toMatchObject({ ":status": 200, "content-type": "application/grpc-web+proto" });
      expect([web.body[0], web.body.toString("latin1")]).toEqual([0x80, expect.stringContaining("grpc-status: 8\r\n")]);
      const { headers, body } = await open("application/connect+proto", path);
      expect(headers).toMatchObject({ ":status": 200, "content-type": "application/connect+proto" });
      expect(body[0]).toBe(2);
      expect(JSON.parse(body.subarray(5).toString())).toMatchObject({ error: { code: "resource_exhausted" } });
    }
    for (const each of sessions) each.destroy();
    await Promise.allSettled(kept);
    // Other streams can start after these streams have ended.
    const other = openHttp2(server.url);
    const stream = other.request({ ":method": "POST", ":path": WATCH, "content-type": "application/grpc" });
    stream.end(envelope(Buffer.alloc(0)));
    await new Promise((resolve) => stream.once("data", resolve));
    other.destroy();
  });

  it("a rejected stream closes its HTTP/1.1 connection if the response is complete before the request", async () => {
    const raw = await openWire(server.url, "http/1.1");
    const body = Buffer.alloc(2 * 1024 * 1024);
    body.writeUInt32BE(body.byteLength - 5, 1);
    const head = `POST ${WATCH} HTTP/1.1\r\nHost: x\r\nContent-Type: application/connect+proto\r\nContent-Length: ${body.byteLength}\r\n\r\n`;
    raw.push(head);
    raw.push(body);
    await waitFor("the stream is rejected", () => raw.received().includes("resource_exhausted"));
    // Without `Connection: close` in the response, the client would lose the next call that it sends on this
    // connection.
    expect(raw.received().toString("latin1").split("\r\n\r\n")[0]).toMatch(/^connection: close$/im);
    // If the server kept the connection open, the next call would wait for the rest of this request.
    await waitFor("the connection is closed", () => raw.isClosed);
    raw.socket.destroy();
  });

  it("a stream over HTTP/2 returns an error to the client even if the request is too large", async () => {
    const session = openHttp2(server.url);
    const stream = session.request({ ":method": "POST", ":path": WATCH, "content-type": "application/connect+proto" });
    // The body is larger than the flow-control windows and the buffers. So the client can send the whole body only if
    // the server reads it.
    const body = Buffer.alloc(3 * 1024 * 1024);
    body.writeUInt32BE(body.byteLength - 5, 1);
    await new Promise((resolve) => stream.end(body, () => resolve(undefined)));
    let answer = "";
    for await (const chunk of stream.setEncoding("latin1")) answer += chunk;
    expect(answer).toContain("resource_exhausted");
    expect(stream.rstCode).toBe(0);
    session.destroy();
  });
});
