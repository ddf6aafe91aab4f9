import type { Wire } from "@user-group-service/testing/attacks/wire";
import { http2On, openHttp2 } from "@user-group-service/testing/http";
import {
  FLAG,
  FRAME,
  frame,
  HELLO,
  type ReceivedFrame,
  requestHeaders,
} from "@user-group-service/testing/http2-frames";
import { VARIANTS } from "@user-group-service/testing/variants";
import { waitFor } from "@user-group-service/testing/wait";
import { describe, expect, it } from "vitest";
import { MIB, statusOn, watchedPort } from "./support/watched-port.ts";

// The variants run concurrently, because these tests mostly wait. Each variant has its own server.
describe.concurrent.each(VARIANTS)("large bodies on $runtime, TLS $secure:", ({ runtime, tls }) => {
  // The bodies have so many pieces that the default deadline of a body is too short on a busy machine.
  const limits = { maxConnections: 80, arrivalTimeoutMs: 600_000 };
  const { port, dial, heldBytes } = watchedPort(runtime, { ...limits, tls: tls?.server });

  it.sequential("bodies that arrive byte by byte take little memory", async () => {
    const pieces = 120_000;
    const overHttp1 = await Promise.all([dial("http/1.1"), dial("http/1.1")]);
    const overHttp2 = await Promise.all([dial(), dial()]);
    for (const raw of overHttp1) raw.push("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (const raw of overHttp2) raw.push(Buffer.concat([HELLO, requestHeaders(1, {})]));
    const before = await heldBytes();
    const many = 10_000;
    const piece1 = Buffer.from("1\r\na\r\n".repeat(many));
    const piece2 = Buffer.concat(Array.from({ length: many }, () => frame(FRAME.data, 0, 1, Buffer.from("a"))));
    const sendAll = (raw: Wire, bytes: Buffer) =>
      new Promise<void>((resolve) => raw.socket.write(bytes, () => resolve()));
    await Promise.all([
      ...overHttp1.map(async (raw) => {
        for (let sent = 0; sent < pieces; sent += many) await sendAll(raw, piece1);
      }),
      ...overHttp2.map(async (raw) => {
        // A stream begins with this flow-control window (RFC 9113, 6.9.2).
        let granted = 65_535;
        for (let sent = 0; sent < pieces; sent += many) {
          await waitFor("the window is open", () => {
            granted = 65_535 + windowOf(raw.frames(), 1);
            return granted - sent >= many;
          });
          await sendAll(raw, piece2);
        }
      }),
    ]);
    // The pieces take more memory than the joined body. Wait until the server has read and joined them.
    await waitFor("the server has joined the pieces", async () => (await heldBytes()) - before < 24 * MIB);
    for (const raw of overHttp1) raw.push("0\r\n\r\n");
    for (const raw of overHttp2) raw.push(frame(FRAME.data, FLAG.endStream, 1));
    for (const raw of overHttp1) await waitFor("the server answers", () => raw.received().includes("\r\n\r\n"));
    for (const raw of overHttp1) expect(raw.received().toString("latin1")).toMatch(/^HTTP\/1\.1 200/);
    for (const raw of overHttp2) await waitFor("the server answers", () => statusOn(raw, 1) === "200");
  });

  it.sequential("a connection survives 200 oversized messages and answers each message", async () => {
    const session = openHttp2(port.url);
    const send = async (body?: Buffer) =>
      (await http2On(session, "/", { method: "POST", ...(body && { body }) })).status;
    const body = Buffer.alloc(MIB + 300_000);
    for (let turn = 0; turn < 50; turn++) {
      const statuses = await Promise.all([send(body), send(body), send(body), send(body)]);
      expect(statuses).toEqual([413, 413, 413, 413]);
    }
    expect(await send()).toBe(200);
    expect(session.destroyed).toBe(false);
    session.destroy();
  });

  it.sequential("a request with an endless message is answered at the size limit, then reset", async () => {
    const session = openHttp2(port.url);
    const stream = session.request({ ":method": "POST", ":path": "/" }, { endStream: false });
    let status: number | undefined;
    stream.on("response", (headers) => {
      status = headers[":status"];
    });
    stream.on("error", () => {});
    stream.resume();
    const closed = new Promise<void>((resolve) => stream.once("close", resolve));
    const piece = Buffer.alloc(MIB);
    const more = () => {
      if (!stream.destroyed && !stream.closed) stream.write(piece, () => setImmediate(more));
    };
    more();
    await closed;
    expect([status, stream.rstCode]).toEqual([413, 0]);
    const next = session.request({ ":path": "/" });
    expect(await new Promise((resolve) => next.once("response", (headers) => resolve(headers[":status"])))).toBe(200);
    session.destroy();
  });
});

function windowOf(frames: readonly ReceivedFrame[], stream: number): number {
  return frames
    .filter((one) => one.type === FRAME.windowUpdate && one.stream === stream)
    .reduce((sum, { payload }) => sum + payload.readUInt32BE(), 0);
}
