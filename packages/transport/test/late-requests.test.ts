import { createServer, type Server } from "node:http";
import type { Socket } from "node:net";
import { rawBytes } from "@user-group-service/testing/http";
import { listen } from "@user-group-service/testing/wait";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Http1Connection } from "../src/http/connections.ts";
import { DEFAULT_LIMITS } from "../src/limits.ts";
import { REFUSAL_STATUS, type Refusal, type Refuse } from "../src/protocol/refusals.ts";

describe("late requests", () => {
  let server: Server;
  let url: string;
  const refusals: Refusal[] = [];
  beforeAll(async () => {
    const limits = { ...DEFAULT_LIMITS, headerTimeoutMs: 1000, arrivalTimeoutMs: 1500 };
    const { headerTimeoutMs: headersTimeout, arrivalTimeoutMs: requestTimeout } = limits;
    const timeouts = { headersTimeout, requestTimeout, connectionsCheckingInterval: 50 };
    const refuse: Refuse = (refusal) => {
      refusals.push(refusal);
      const { kind } = refusal;
      const body = Buffer.from(kind);
      return { status: REFUSAL_STATUS[kind] ?? 500, headers: { "content-length": String(body.byteLength) }, body };
    };
    server = createServer(timeouts, (req, res) => {
      Http1Connection.of(req.socket).takes(res);
      if (req.url === "/begun") res.write("begun");
      req.on("error", () => {}).resume();
    });
    server.on("connection", (socket) => void new Http1Connection(socket));
    server.on("clientError", (error, socket: Socket) =>
      Http1Connection.of(socket).onClientError(error, { refuse, limits }),
    );
    url = `http://127.0.0.1:${await listen(server)}`;
  });
  afterAll(() => new Promise((resolve) => server.close(resolve)));

  it.each([
    ["header", "GET / HTTP/1.1\r\nHost: x\r\n"],
    ["body", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12"],
  ])("a request is answered with 408 if its %s arrives too late", async (_title, sent) => {
    const { bytes, ended } = await rawBytes(url, sent);
    expect(ended).toBe(true);
    const [head = "", body] = bytes.toString().split("\r\n\r\n");
    expect(head).toMatch(/^HTTP\/1\.1 408 \w/);
    expect(head).toMatch(/^connection: close\r?$/m);
    expect(head).toMatch(/^content-length: 15\r?$/m);
    expect(body).toBe("request-timeout");
    expect(refusals.at(-1)).toEqual({ kind: "request-timeout", headerMs: 1000, requestMs: 1500 });
  });

  it("a late request is ended without a second answer if an answer has begun", async () => {
    const sent = "POST /begun HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12";
    const { bytes, ended } = await rawBytes(url, sent);
    expect(ended).toBe(true);
    expect(bytes.toString()).toMatch(/^HTTP\/1\.1 200 /);
    expect(bytes.toString()).not.toContain("408");
  });
});
