import { type ClientHttp2Session, type ClientHttp2Stream, connect } from "node:http2";
import { FLAG, FRAME, frame, HELLO, requestHeaders } from "@user-group-service/testing/http2-frames";
import { rawConnect } from "@user-group-service/testing/raw-socket";
import { waitFor } from "@user-group-service/testing/wait";
import { afterEach, expect, it } from "vitest";
import { type NodeServer, serveNode } from "../src/index.ts";
import { MAX_HTTP2_STREAMS } from "../src/limits.ts";
import { TalkService } from "./gen/talk/v1/talk_pb.ts";

/** The limit of a new connection, also while the worker is busy. */
const FIRST_STREAMS = 100;
const BUSY_STREAMS = 8;
/** With this number of open streams the worker is busy. */
const MAX_OPEN = 1024;

const ended: (() => void)[] = [];
afterEach(() => {
  for (const end of ended.splice(0)) end();
});

/** A server whose calls wait for `answer`. */
async function waitingServer(): Promise<{ server: NodeServer; answer: () => void; begun: () => number }> {
  let begun = 0;
  let answer = () => {};
  const answered = new Promise<void>((resolve) => (answer = resolve));
  const server = await serveNode(
    {
      routes: ({ rpc }) =>
        rpc(TalkService.method.say, async () => {
          begun++;
          await answered;
          return {};
        }),
    },
    { host: "127.0.0.1", port: 0 },
  );
  ended.push(() => server.destroy());
  return { server, answer, begun: () => begun };
}

/** A connection, and every limit that the server has announced on it. */
async function connected({ url }: NodeServer): Promise<{ session: ClientHttp2Session; limits: number[] }> {
  const session = connect(url).on("error", () => {});
  ended.push(() => session.destroy());
  const limits: number[] = [];
  session.on("remoteSettings", ({ maxConcurrentStreams }) => limits.push(maxConcurrentStreams as number));
  await waitFor("the limit is known", () => limits.length > 0);
  return { session, limits };
}

/** The first limit of a new connection. */
async function firstLimit(server: NodeServer): Promise<number | undefined> {
  const { session, limits } = await connected(server);
  session.destroy();
  return limits[0];
}

/** Opens more streams than the worker can serve well. Returns their connections. */
async function occupied(
  server: NodeServer,
  begun: () => number,
): Promise<{ session: ClientHttp2Session; limits: number[] }[]> {
  const before = begun();
  const all: { session: ClientHttp2Session; limits: number[] }[] = [];
  while (all.length * FIRST_STREAMS < MAX_OPEN) {
    const connection = await connected(server);
    for (let i = 0; i < FIRST_STREAMS; i++) call(connection.session);
    all.push(connection);
    await waitFor("the calls are in flight", () => begun() - before === all.length * FIRST_STREAMS);
  }
  return all;
}

function call(session: ClientHttp2Session): ClientHttp2Stream {
  const stream = session.request({
    ":method": "POST",
    ":path": "/talk.v1.TalkService/Say",
    "content-type": "application/json",
  });
  stream.on("error", () => {}).end("{}");
  return stream.resume();
}

function rawCalls(streams: readonly number[]): Buffer {
  const fields = { ":path": "/talk.v1.TalkService/Say", "content-type": "application/json" };
  return Buffer.concat(
    streams.flatMap((stream) => [
      requestHeaders(stream, fields),
      frame(FRAME.data, FLAG.endStream, stream, Buffer.from("{}")),
    ]),
  );
}

it("grants a new connection the recommended number of streams, and fewer if there are many connections", async () => {
  const { server } = await waitingServer();
  const first: number[] = [];
  for (let i = 0; i < 90; i++) first.push((await connected(server)).limits[0] as number);
  expect(first.slice(0, 80)).toEqual(Array(80).fill(FIRST_STREAMS));
  expect(first.at(-1)).toBeLessThan(FIRST_STREAMS);
});

it("grants a new connection few streams while many are open, and lowers no limit", async () => {
  const { server, begun } = await waitingServer();
  for (let i = 0; i < 3; i++) {
    const all = await occupied(server, begun);
    expect(await firstLimit(server)).toBe(BUSY_STREAMS);
    for (const { limits } of all) expect(limits).toEqual([...limits].sort((a, b) => a - b));
    for (const { session } of all) session.destroy();
    // The server notices a closed connection a moment later.
    await waitFor("the streams are closed", async () => (await firstLimit(server)) === FIRST_STREAMS);
  }
});

it("raises the limit of a connection that uses half of it, and serves all of its calls", async () => {
  const { server, answer, begun } = await waitingServer();
  const { session, limits } = await connected(server);
  const statuses = Array.from(
    { length: MAX_HTTP2_STREAMS },
    () => new Promise((resolve) => call(session).once("response", ({ ":status": status }) => resolve(status))),
  );
  await waitFor("all calls are in flight", () => begun() === MAX_HTTP2_STREAMS);
  expect([limits[0], limits.at(-1)]).toEqual([FIRST_STREAMS, MAX_HTTP2_STREAMS]);
  answer();
  expect(new Set(await Promise.all(statuses))).toEqual(new Set([200]));
});

it("survives a client that closes the connection without acknowledging a higher limit", async () => {
  const { server, begun } = await waitingServer();
  const raw = await rawConnect(server.url, "h2");
  const settings = () => raw.frames().filter(({ type, flags }) => type === FRAME.settings && flags === 0);
  raw.send(HELLO);
  await waitFor("the limit is known", () => settings().length === 1);
  const ids = Array.from({ length: 120 }, (_, i) => 2 * i + 1);
  raw.send(rawCalls(ids.slice(0, 60)));
  await waitFor("the limit is raised", () => settings().length === 2);
  // More than half of the new limit.
  raw.send(rawCalls(ids.slice(60)));
  await waitFor("the calls have begun", () => begun() === ids.length);
  raw.socket.destroy();
  expect(await firstLimit(server)).toBe(FIRST_STREAMS);
});
