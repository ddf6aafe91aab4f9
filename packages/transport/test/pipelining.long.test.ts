import type { Wire } from "@user-group-service/testing/attacks/wire";
import { VARIANTS } from "@user-group-service/testing/variants";
import { waitFor } from "@user-group-service/testing/wait";
import { describe, expect, it } from "vitest";
import { MIB, watchedPort } from "./support/watched-port.ts";

describe.each(VARIANTS)("pipelining on $runtime, TLS $secure", ({ runtime, tls }) => {
  const { dial: dialAny, memory } = watchedPort(runtime, { tls: tls?.server }, 256);
  const dial = () => dialAny("http/1.1");
  const request = (bytes: number) => `GET / HTTP/1.1\r\nHost: x\r\nx-bytes: ${bytes}\r\n\r\n`;
  const answers = (raw: Wire) => raw.received().toString("latin1").split("HTTP/1.1 200").length - 1;

  it("pipelined requests are answered in order, and the connection stays open", async () => {
    const raw = await dial();
    for (let turn = 1; turn <= 20; turn++) {
      const sizes = Array.from({ length: 16 }, (_, i) => turn + 100 * i);
      raw.push(sizes.map(request).join(""));
      await waitFor(
        "the server answers the requests",
        () => answers(raw) === 16 * turn && raw.received().at(-1) === 0x61,
      );
    }
    expect(raw.isClosed).toBe(false);
    const lengths = [
      ...raw
        .received()
        .toString("latin1")
        .matchAll(/content-length: (\d+)/gi),
    ].map(([, n]) => Number(n));
    expect(lengths).toEqual(
      Array.from({ length: 20 }, (_, turn) => Array.from({ length: 16 }, (_, i) => turn + 1 + 100 * i)).flat(),
    );
  });

  it("pipelined requests are served one at a time", async () => {
    const raw = await dial();
    const { served } = await memory();
    // The response to the first request never ends.
    raw.push(`POST /stream HTTP/1.1\r\nHost: x\r\ncontent-length: 0\r\n\r\n${request(2).repeat(20)}`);
    const other = await dial();
    other.push(request(2));
    await waitFor("a later request is answered", () => answers(other) === 1);
    // The server has served only the request on the other connection.
    expect((await memory()).served - served).toBe(1);
  });

  it("pipelined requests are served even if they arrive while the server still writes a long answer", async () => {
    const raw = await dial();
    const length = 12 * MIB;
    raw.push(request(length));
    await waitFor("the answer begins", () => raw.received().length > 0);
    raw.socket.pause();
    // Over TLS, the body has several records that arrive together.
    const body = "b".repeat(60_000);
    raw.push(`POST / HTTP/1.1\r\nHost: x\r\ncontent-length: ${body.length}\r\n\r\n${body}${request(3)}`);
    await waitFor("the client has sent the requests", () => raw.socket.writableLength === 0);
    raw.socket.resume();
    await waitFor(
      "the server answers all requests",
      () => raw.isClosed || (answers(raw) === 3 && raw.received().at(-3) === 0x61),
    );
    expect(raw.isClosed).toBe(false);
  });

  it("pipelined requests are answered up to a maximum number, and then the server closes the connection", async () => {
    const raw = await dial();
    const { served } = await memory();
    raw.push(request(2).repeat(2000));
    await waitFor("the server closes the connection", () => raw.isClosed);
    const count = answers(raw);
    expect(count).toBeGreaterThanOrEqual(33);
    expect((await memory()).served - served).toBe(count);
    const last = raw.received().toString("latin1").split("HTTP/1.1 200").at(-1) ?? "";
    expect(last.toLowerCase()).toContain("connection: close");
    expect((await memory()).served).toBeLessThan(served + 2000);
  });

  it("pipelined requests are answered before a CONNECT closes the connection", async () => {
    const connect = "CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\n\r\n";
    for (const count of [0, 1, 2, 20]) {
      const raw = await dial();
      raw.push(request(2).repeat(count) + connect);
      await waitFor("the connection is closed", () => raw.isClosed);
      expect(answers(raw)).toBe(count);
    }
    const raw = await dial();
    raw.push(request(12 * MIB));
    await waitFor("a long answer begins", () => raw.received().length > 0);
    raw.socket.pause();
    raw.push(connect);
    await waitFor("the client has sent the CONNECT", () => raw.socket.writableLength === 0);
    raw.socket.resume();
    await waitFor("the connection is closed", () => raw.isClosed);
    expect(raw.received().length).toBeGreaterThan(12 * MIB);
  });

  it("pipelined requests take little memory while the client does not read the responses", async () => {
    await memory();
    const before = await memory();
    for (let i = 0; i < 20; i++) {
      const raw = await dial();
      raw.socket.pause();
      raw.push(request(10_000).repeat(2000));
    }
    await waitFor(
      "the server serves the accepted requests",
      async () => (await memory()).served - before.served >= 20 * 33,
    );
    const after = await memory();
    expect(after.served - before.served).toBeLessThan(20 * 200);
    // The answers to served requests take 330 KB per connection.
    expect(after.heapUsed + after.external - before.heapUsed - before.external).toBeLessThan(20 * MIB);
  });

  it("pipelined requests take little memory if the server refuses them while an earlier answer is unread", async () => {
    const raws = await Promise.all(Array.from({ length: 4 }, dial));
    for (const raw of raws) raw.push(request(12 * MIB));
    await waitFor("the answers begin", () => raws.every((raw) => raw.received().length > 0));
    for (const raw of raws) raw.socket.pause();
    await memory();
    const before = await memory();
    for (const raw of raws) raw.push("GET / HTTP/1.1\r\nHost: x\r\nExpect: x\r\n\r\n".repeat(4000));
    await waitFor("the client has sent the requests", () => raws.every(({ socket }) => socket.writableLength === 0));
    const after = await memory();
    expect(after.heapUsed + after.external - before.heapUsed - before.external).toBeLessThan(8 * MIB);
  });
});
