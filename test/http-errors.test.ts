import { describe, expect, it } from "vitest";
import { type HttpAnswer, http2, rawBytes } from "./support/http.ts";
import { suiteServer } from "./support/opened.ts";
import { expectRestError } from "./support/rest-shape.ts";
import { RUNTIMES } from "./support/server.ts";

/** Sends bytes, and reads the one answer up to the end of the connection. */
async function answerTo(url: string, sent: string): Promise<HttpAnswer> {
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

const MALFORMED = { status: 400, code: "invalid_argument", reason: "MALFORMED_HTTP" };
const TOO_LARGE = { status: 431, code: "resource_exhausted", reason: "HEADER_TOO_LARGE" };
const UNEXPECTED = { status: 417, code: "invalid_argument", reason: "EXPECTATION_FAILED" };

describe.each(RUNTIMES)("what is refused before it is a request, on %s", (runtime) => {
  const server = suiteServer({ runtime });

  it.each([
    ["what is no HTTP", "hello\r\n\r\n", MALFORMED],
    ["a version that is unknown", "GET / HTTP/9.9\r\n\r\n", MALFORMED],
    ["a header without a colon", "GET / HTTP/1.1\r\nHost: x\r\nbad\r\n\r\n", MALFORMED],
    [
      "a chunk size that is none",
      "PUT /api/user HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
      MALFORMED,
    ],
    ["no host", "GET /healthz HTTP/1.1\r\n\r\n", MALFORMED],
    ["fields that are too large", `GET / HTTP/1.1\r\nHost: x\r\nX: ${"x".repeat(100_000)}\r\n\r\n`, TOO_LARGE],
    ["an expectation", "PUT /api/user HTTP/1.1\r\nHost: x\r\nExpect: foo\r\nContent-Length: 5\r\n\r\n", UNEXPECTED],
  ])("%s has an error that programs can read", async (_title, sent, expected) => {
    expectRestError(await answerTo(server.url, sent), expected);
  });

  it("so has an expectation over HTTP/2", async () => {
    const headers = { expect: "foo", "x-request-id": "mine" };
    const answer = await http2(server.url, "/api/user", { method: "PUT", headers, body: "{}" });
    expectRestError(answer, UNEXPECTED);
    expect(answer.headers["x-request-id"]).toBe("mine");
  });

  it("a connection that is refused leaves the others alone", async () => {
    await answerTo(server.url, "hello\r\n\r\n");
    expect((await fetch(`${server.url}/healthz`)).status).toBe(200);
  });
});
