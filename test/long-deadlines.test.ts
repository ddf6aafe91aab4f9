import { type ClientHttp2Session, type ClientHttp2Stream, connect } from "node:http2";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { suiteServer } from "./support/opened.ts";
import { RUNTIMES } from "./support/server.ts";
import { waitFor } from "./support/wait.ts";

/** A stream as a client sees it. */
interface Watching {
  readonly stream: ClientHttp2Stream;
  bytes: number;
  ended: boolean;
}

describe.each(RUNTIMES)("a deadline beyond a timer's reach, on %s", (runtime) => {
  const server = suiteServer({ runtime });
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
  ])("does not end a stream of %s", async (type, name, long, short) => {
    const lasting = watch({ "content-type": type, [name]: long });
    await waitFor("the state is told", () => lasting.bytes > 0);
    // Made later, with a deadline of its own, it is over before the other.
    const passing = watch({ "content-type": type, [name]: short });
    await waitFor("the short deadline has passed", () => passing.ended);
    expect(lasting.ended).toBe(false);
    expect(server.output()).not.toContain("TimeoutOverflow");
    lasting.stream.destroy();
  });
});
