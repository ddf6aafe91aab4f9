import { openWire } from "@user-group-service/testing/attacks/wire";
import { http2 } from "@user-group-service/testing/http";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { VARIANTS } from "@user-group-service/testing/variants";
import { waitFor } from "@user-group-service/testing/wait";
import { describe, expect, it } from "vitest";
import { newServer, suiteServer } from "./support/opened.ts";

/**
 * A request that follows an ambiguous request on the same connection. If the server misread the end of the ambiguous
 * request, the client would assign the responses to the wrong requests.
 */
const NEXT = "GET /healthz?next HTTP/1.1\r\nHost: x\r\n\r\n";
const chunked = "3\r\nabc\r\n0\r\n\r\n";

/** The ways to send bytes: all bytes in one packet, or each byte in its own packet. */
const PACES = ["at once", "byte by byte"] as const;

describe.each(VARIANTS)("HTTP/1.1 requests on $runtime, TLS $secure", (variant) => {
  const server = suiteServer(variant);

  async function answersTo(bytes: string, pace: (typeof PACES)[number] = "at once") {
    const raw = await openWire(server.url, "http/1.1");
    if (pace === "at once") raw.push(bytes);
    else await raw.pushSlowly(bytes);
    await waitFor("the connection is closed", () => raw.isClosed);
    const text = raw.received().toString("latin1");
    return { statuses: [...text.matchAll(/HTTP\/1\.1 (\d{3})/g)].map(([, status]) => Number(status)), text };
  }

  const refused: readonly (readonly [what: string, status: number, request: string])[] = [
    ["chunks in HTTP/1.0", 400, `POST /api/user HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n${chunked}`],
    ["a Content-Length that is not a number", 400, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n"],
    [
      "two values of Content-Length",
      400,
      "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    ],
    [
      "a Content-Length and chunks",
      400,
      `POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n${chunked}`,
    ],
    ["two different Host headers", 400, "GET /healthz HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n"],
    ["two equal Host headers", 400, "GET /healthz HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n"],
    ["no host", 400, "GET /healthz HTTP/1.1\r\n\r\n"],
    ["a host with a space", 400, "GET /healthz HTTP/1.1\r\nHost: a b\r\n\r\n"],
    ["a host with a path", 400, "GET /healthz HTTP/1.1\r\nHost: a/b\r\n\r\n"],
    ["a host with credentials", 400, "GET /healthz HTTP/1.1\r\nHost: a@b\r\n\r\n"],
    ["an unclosed bracket in the host", 400, "GET /healthz HTTP/1.1\r\nHost: [::1\r\n\r\n"],
    ["an invalid port", 400, "GET /healthz HTTP/1.1\r\nHost: a:99999\r\n\r\n"],
    ["a target in absolute form without a host", 400, "GET http:///healthz HTTP/1.1\r\nHost: a\r\n\r\n"],
    [
      "Transfer-Encoding: gzip, chunked",
      501,
      `PUT /api/user HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n${chunked}`,
    ],
    [
      "gzip and chunked in two Transfer-Encoding headers",
      501,
      `PUT /api/user HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n${chunked}`,
    ],
  ];

  it.each(refused)(
    "a request with %s receives one error response, and later bytes are not read",
    async (_what, status, request) => {
      for (const pace of PACES) {
        const { statuses, text } = await answersTo(request + NEXT.repeat(3), pace);
        expect([statuses, text]).toEqual([[status], expect.stringMatching(/^connection: close/im)]);
      }
    },
  );

  it.each(["gzip", "chunked, gzip", "chunked, chunked", "identity"])(
    "a request with Transfer-Encoding: %s receives one error response, and later bytes are not read",
    async (coding) => {
      const request = `PUT /api/user HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: ${coding}\r\n\r\n${chunked}`;
      for (const pace of PACES) {
        const { statuses } = await answersTo(request + NEXT.repeat(3), pace);
        expect([[400], [501]]).toContainEqual(statuses);
      }
    },
  );

  it.each([
    ["no body", "GET /healthz HTTP/1.1\r\nHost: x\r\n"],
    ["a body", "POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n"],
    ["a chunked body", "POST /nowhere HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"],
  ])(
    "a request with an upgrade to h2c and %s is answered over HTTP/1.1, and the connection closes",
    async (_what, head) => {
      const upgrade = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n";
      const body = head.includes("chunked") ? chunked : head.includes("Length") ? "abc" : "";
      for (const pace of PACES) {
        const { statuses, text } = await answersTo(head + upgrade + body + NEXT.repeat(3), pace);
        expect(statuses).toEqual([head.startsWith("GET") ? 200 : 404]);
        expect(text).toMatch(/^connection: close/im);
      }
    },
  );

  it("earlier requests are answered before a pipelined upgrade request closes the connection", async () => {
    const get = `GET /api/user?user_group_id=a HTTP/1.1\r\nHost: x\r\nAuthorization: Token ${server.tokens.customer}\r\n\r\n`;
    const upgrade = "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    const { statuses, text } = await answersTo(get.repeat(2) + upgrade + NEXT);
    expect(statuses).toEqual([200, 200]);
    expect(text).toMatch(/^connection: close/im);
  });

  it.each([
    ["a request", NEXT],
    ["bytes that are not HTTP", "\0\0\0\r\n\r\n"],
    ["a part of a request", "GET /healthz HT"],
  ])("a request with `Connection: close` is answered even if the client then sends %s", async (_what, behind) => {
    for (const pace of PACES) {
      const request = "GET /api/user?user_group_id=a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n";
      const { statuses } = await answersTo(
        `${request}Authorization: Token ${server.tokens.customer}\r\n\r\n${behind}`,
        pace,
      );
      expect(statuses).toEqual([200]);
    }
  });

  it("valid requests are answered even if invalid bytes follow", async () => {
    const request = `GET /api/user?user_group_id=a HTTP/1.1\r\nHost: x\r\nAuthorization: Token ${server.tokens.customer}\r\n\r\n`;
    expect((await answersTo(`${request.repeat(5)}\0\0\0\r\n\r\n`)).statuses).toEqual([200, 200, 200, 200, 200]);
  });

  it("a request with an invalid body is rejected after the responses to earlier requests", async () => {
    const authorization = `Authorization: Token ${server.tokens.customer}\r\n`;
    const get = `GET /api/user?user_group_id=a HTTP/1.1\r\nHost: x\r\n${authorization}\r\n`;
    const put = `PUT /api/user HTTP/1.1\r\nHost: x\r\n${authorization}Transfer-Encoding: chunked\r\n\r\n5\r\nab`;
    expect((await answersTo(`${get.repeat(2)}${put}\r\nnot a chunk\r\n`)).statuses).toEqual([200, 200, 400]);
  });

  it("the server closes the connection after an invalid request, even if the client continues to send bytes", async () => {
    const raw = await openWire(server.url, "http/1.1");
    raw.push("GET /healthz HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n");
    const trickle = setInterval(() => raw.push("a"), 50);
    try {
      await waitFor("the connection is closed", () => raw.isClosed, 20_000);
    } finally {
      clearInterval(trickle);
    }
    expect(raw.received().toString("latin1")).toMatch(/^HTTP\/1\.1 400 /);
  });

  describe("a body with Expect: 100-continue", () => {
    const put = (token: string, length = 35) =>
      `PUT /api/user HTTP/1.1\r\nHost: x\r\nAuthorization: Token ${token}\r\nExpect: 100-continue\r\nContent-Length: ${length}\r\n\r\n`;

    it("the server requests the body after authentication", async () => {
      await http2(server.url, "/api/user?user_group_id=e", {
        headers: { authorization: `Token ${server.tokens.customer}` },
      });
      const raw = await openWire(server.url, "http/1.1");
      raw.push(put(server.tokens.customer));
      await waitFor("the body is requested", () => raw.received().toString().endsWith("HTTP/1.1 100 Continue\r\n\r\n"));
      const body = '{"user_group_id":"e","name":"name"}';
      raw.push(body + NEXT);
      await waitFor(
        "both requests have a response",
        () => raw.received().toString().split("HTTP/1.1 200").length === 3,
      );
      raw.socket.destroy();
    });

    it.each(PACES)(
      "the server rejects an unauthenticated caller without requesting the body (the client sends the headers %s)",
      async (pace) => {
        const { statuses, text } = await answersTo(put("wrong") + NEXT, pace);
        expect([statuses, text]).toEqual([[401], expect.stringMatching(/^connection: close/im)]);
      },
    );

    it("the server does not request the body at an unknown path, or over HTTP/1.0", async () => {
      expect((await answersTo(put("wrong").replace("/api/user", "/nowhere") + NEXT)).statuses).toEqual([404]);
      const old = put("wrong", 2).replace("HTTP/1.1", "HTTP/1.0");
      expect((await answersTo(`${old}{}`)).statuses).toEqual([401]);
    });

    it("the server does not send 100 Continue if the request has no body", async () => {
      const { text } = await answersTo(
        "GET /healthz HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n",
      );
      expect(text).toMatch(/^HTTP\/1\.1 200 /);
    });
  });

  describe("headers after 1,500 other headers", () => {
    const others = Array.from({ length: 1500 }, (_, i) => `a${i}: b\r\n`).join("");

    it("Authorization and Content-Length are read after 1,500 other headers", async () => {
      const body = '{"user_group_id":"late"}';
      const { statuses } = await answersTo(
        `POST /api/viewer HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${others}Authorization: Token wrong\r\n\r\n`,
      );
      expect(statuses).toEqual([401]);
      const { text } = await answersTo(
        `GET /api/user HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${others}Authorization: Token ${server.tokens.customer}\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
      );
      expect(text).toMatch(/^HTTP\/1\.1 200 [\s\S]*"provided_id":"late"/);
    });

    it("the size of headers is limited, but not their number", async () => {
      const many = `${"a".repeat(30)}:\r\n`.repeat(1200);
      const { statuses } = await answersTo(`GET /healthz HTTP/1.1\r\nHost: x\r\n${many}\r\n`);
      expect(statuses).toEqual([431]);
    });
  });
});

describe.each(RUNTIMES)("X-Forwarded-For after 1,500 other headers on %s", (runtime) => {
  it("the server counts authentication failures for the address in X-Forwarded-For", async () => {
    const env = { TRUSTED_PROXIES: "127.0.0.1", AUTH_FAILURE_LIMIT: "3/1m" };
    const server = await newServer({ runtime, env });
    const guess = async (address: string) => {
      const raw = await openWire(server.url, "http/1.1");
      raw.push(
        `GET /api/user HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Token wrong\r\n${"a: b\r\n".repeat(1500)}X-Forwarded-For: ${address}\r\n\r\n`,
      );
      await waitFor("there is a response", () => raw.isClosed);
      return Number(/^HTTP\/1\.1 (\d{3})/.exec(raw.received().toString())?.[1]);
    };
    await waitFor("the first address is rate limited", async () => (await guess("192.0.2.1")) === 429);
    expect(await guess("192.0.2.2")).toBe(401);
  });
});
