import { once } from "node:events";
import { type ClientHttp2Session, type ClientHttp2Stream, connect } from "node:http2";
import { connect as connectTcp } from "node:net";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { waitFor } from "@user-group-service/testing/wait";
import { describe, expect, it } from "vitest";
import { watchedPort } from "./support/watched-port.ts";

const PROXY = "127.0.0.9";
const [READER, NON_READER] = ["10.0.0.1", "10.0.0.2"];

/** The result of a request. Contains the number of response bytes that arrived, and the error code of the stream. */
interface Outcome {
  readonly bytes: number;
  readonly code: number;
}

async function get(session: ClientHttp2Session, client: string, bytes: number): Promise<Outcome> {
  const stream = session.request({ "x-forwarded-for": client, "x-bytes": String(bytes) });
  let read = 0;
  stream.on("data", ({ byteLength }: Buffer) => (read += byteLength));
  stream.on("error", () => {});
  await new Promise((resolve) => stream.once("close", resolve));
  return { bytes: read, code: stream.rstCode ?? 0 };
}

/** Sends a request of a client behind the proxy, and reads only the headers of the response. */
async function getUnread(session: ClientHttp2Session, client: string, bytes: number) {
  const stream = session.request({ "x-forwarded-for": client, "x-bytes": String(bytes) });
  stream.on("error", () => {});
  await Promise.race([once(stream, "response"), once(stream, "close")]).catch(() => {});
  return stream;
}

describe.each(RUNTIMES)("a port on %s", (runtime) => {
  // Only the budget for unread responses may end a response.
  const { port } = watchedPort(runtime, { proxy: PROXY, readTimeoutMs: 600_000 }, 512);

  async function open(): Promise<ClientHttp2Session & { errors: number }> {
    const { hostname: host, port: number } = new URL(port.url);
    const createConnection = () => connectTcp({ host, port: Number(number), localAddress: PROXY });
    const session = Object.assign(connect(port.url, { createConnection }), { errors: 0 });
    session.on("error", () => session.errors++);
    await once(session, "connect");
    return session;
  }

  it("answers 200 or more concurrent calls on one connection if the client reads the responses", async () => {
    const session = await open();
    // All responses together exceed the default limit of node:http2, 10 MB, but not the budget of the runtime.
    const streams = runtime === "node" ? 250 : 200;
    const outcomes: Outcome[] = [];
    let left = 4 * streams;
    const call = async () => {
      while (left-- > 0) outcomes.push(await get(session, READER, 60_000));
    };
    await Promise.all(Array.from({ length: streams }, call));
    expect(outcomes.filter(({ bytes, code }) => bytes !== 60_000 || code !== 0)).toEqual([]);
    expect(outcomes).toHaveLength(4 * streams);
    expect(session.errors).toBe(0);
    session.destroy();
  });

  it("answers a client that reads, even if another client on the same connection does not read", async () => {
    const session = await open();
    session.setLocalWindowSize(2 ** 30);
    for (let i = 0; i < 6; i++) await getUnread(session, NON_READER, 2_000_000);
    // By default, node:http2 would end the connection after 100 refused streams.
    for (let i = 0; i < 120; i++) expect(await get(session, READER, 10)).toEqual({ bytes: 10, code: 0 });
    expect(session.closed).toBe(false);
    session.destroy();
  });

  it("completes the call of a client if another client on the connection exceeds the budget for unread responses", async () => {
    const session = await open();
    session.setLocalWindowSize(2 ** 30);
    const slow = await getUnread(session, READER, 1_000_000);
    let read = 0;
    slow.pause();
    const held: ClientHttp2Stream[] = [];
    // All these responses together have 80 MB on Node, and 20 MB on Deno.
    const count = runtime === "node" ? 40 : 10;
    for (let i = 0; i < count && !session.closed; i++) held.push(await getUnread(session, NON_READER, 2_000_000));
    await waitFor("the server resets a stream of the non-reading client", () => held.some(({ closed }) => closed));
    slow.on("data", ({ byteLength }: Buffer) => (read += byteLength));
    slow.resume();
    await new Promise((resolve) => slow.once("close", resolve));
    expect({ bytes: read, code: slow.rstCode }).toEqual({ bytes: 1_000_000, code: 0 });
    const next = await open();
    expect(await get(next, READER, 10)).toEqual({ bytes: 10, code: 0 });
    for (const one of [session, next]) one.destroy();
  });
});
