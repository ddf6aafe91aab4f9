import { type ClientHttp2Session, type ClientHttp2Stream, connect } from "node:http2";
import { FLAG, FRAME, frame, HELLO, requestHeaders } from "@user-group-service/testing/http2-frames";
import { rawConnect } from "@user-group-service/testing/raw-socket";
import { waitFor } from "@user-group-service/testing/wait";
import { afterEach, expect, it } from "vitest";
import { type NodeServer, serveNode } from "../src/index.ts";
import { MAX_HTTP2_STREAMS } from "../src/limits.ts";
import { TalkService } from "./gen/talk/v1/talk_pb.ts";

/** The streams that all connections share. */
const ALL_STREAMS = 1024;
/** The limit of a connection when the shared streams are granted. */
const SMALL_LIMIT = 8;

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

/** Whether a new connection gets the largest limit. The server notices a closed connection a moment later. */
async function areFree(server: NodeServer): Promise<boolean> {
  const { session, limits } = await connected(server);
  session.destroy();
  return limits.at(-1) === MAX_HTTP2_STREAMS;
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

it("grants the first connections many streams, later ones few, and never lowers a limit", async () => {
  const { server } = await waitingServer();
  const all: number[][] = [];
  for (let i = 0; i < 50; i++) all.push((await connected(server)).limits);
  const last = all.map((limits) => limits.at(-1) as number);
  expect(last[0]).toBe(MAX_HTTP2_STREAMS);
  expect(Math.min(...last)).toBe(SMALL_LIMIT);
  expect(last.reduce((a, b) => a + b)).toBeLessThan(ALL_STREAMS + 50 * SMALL_LIMIT);
  for (const limits of all) expect(limits).toEqual([...limits].sort((a, b) => a - b));
});

it("raises the limit of a connection that uses half of it while streams are free, and serves all of its calls", async () => {
  const { server, answer, begun } = await waitingServer();
  const others = await Promise.all(Array.from({ length: 20 }, () => connected(server)));
  const { session, limits } = await connected(server);
  const first = limits.at(-1) as number;
  for (const other of others) other.session.destroy();
  await waitFor("the streams are free", () => areFree(server));
  const streams = Array.from({ length: MAX_HTTP2_STREAMS }, () => call(session));
  const statuses = Promise.all(
    streams.map(
      (stream) => new Promise((resolve) => stream.once("response", ({ ":status": status }) => resolve(status))),
    ),
  );
  await waitFor("all calls are in flight", () => begun() === MAX_HTTP2_STREAMS);
  expect(first).toBeLessThan(MAX_HTTP2_STREAMS / 2);
  expect(limits.at(-1)).toBe(MAX_HTTP2_STREAMS);
  answer();
  expect(new Set(await statuses)).toEqual(new Set([200]));
});

it("survives a client that closes the connection without acknowledging a higher limit", async () => {
  const { server, begun } = await waitingServer();
  const others = await Promise.all(Array.from({ length: 20 }, () => connected(server)));
  const raw = await rawConnect(server.url, "h2");
  const settings = () => raw.frames().filter(({ type, flags }) => type === FRAME.settings && flags === 0);
  raw.send(HELLO);
  await waitFor("the limit is known", () => settings().length === 1);
  for (const { session } of others) session.destroy();
  await waitFor("the streams are free", () => areFree(server));
  raw.send(rawCalls([1, 3, 5, 7, 9]));
  await waitFor("the limit is raised", () => settings().length === 2);
  // More than half of the new limit.
  raw.send(rawCalls([11, 13, 15, 17, 19, 21, 23]));
  await waitFor("the calls have begun", () => begun() === 12);
  raw.socket.destroy();
  await waitFor("its streams are free", () => areFree(server));
});

it("gives the streams of a closed connection to new ones", async () => {
  const { server } = await waitingServer();
  for (let i = 0; i < 3; i++) {
    for (let j = 0; j < 20; j++) await connected(server);
    for (const end of ended.splice(1)) end();
    await waitFor("the streams are free again", () => areFree(server));
  }
});
