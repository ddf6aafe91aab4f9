import { type ClientHttp2Session, connect as connectHttp2, constants } from "node:http2";
import { afterEach, describe, expect, it } from "vitest";
import { pinged } from "./support/http.ts";
import { newServer } from "./support/opened.ts";
import { RUNTIMES, type TestServer } from "./support/server.ts";
import { pause, waitFor } from "./support/wait.ts";

const MAX_STREAMS = 250;
const MIN_STREAMS = 8;

describe.each(RUNTIMES)("clients of HTTP/2 whose server lags, on %s", (runtime) => {
  const sessions: ClientHttp2Session[] = [];
  afterEach(() => {
    for (const session of sessions.splice(0)) session.destroy();
  });

  /** A connection, and how many streams it may have open. */
  async function connect({ url }: TestServer) {
    const session = connectHttp2(url);
    sessions.push(session);
    const errors: Error[] = [];
    session.on("error", (error) => errors.push(error));
    let quota = 0;
    session.on("remoteSettings", ({ maxConcurrentStreams = 0 }) => {
      quota = maxConcurrentStreams;
    });
    await waitFor("the server tells its limits", () => quota > 0);
    return { session, errors, quota: () => quota };
  }

  /** Makes a server lag again and again, as one that has more to do than it can, until a condition holds. */
  async function lag({ pid }: TestServer, what: string, condition: () => boolean, during: () => void = () => {}) {
    await waitFor(what, async () => {
      process.kill(pid, "SIGSTOP");
      during();
      await pause(400);
      process.kill(pid, "SIGCONT");
      // The server must measure once between two pauses.
      await Promise.all(sessions.map(pinged));
      return condition();
    });
  }

  /** The reset code of a call, and its status: 0 when there is none. */
  function call(session: ClientHttp2Session): Promise<readonly [code: number | undefined, status: number]> {
    return new Promise((resolve) => {
      const stream = session.request({ ":path": "/healthz" });
      let status = 0;
      stream.on("response", (headers) => {
        status = headers[":status"] ?? 0;
      });
      stream.on("error", () => {});
      stream.on("close", () => resolve([stream.rstCode, status]));
      stream.resume();
    });
  }

  it("may have fewer streams open, down to a minimum, and as many as before when it no longer does", async () => {
    const server = await newServer({ runtime });
    const [one, other] = [await connect(server), await connect(server)];
    // A busy machine may make a server lag from its start.
    await waitFor("they may have all", () => one.quota() === MAX_STREAMS && other.quota() === MAX_STREAMS);
    let late = one;
    const laterToo = async () => {
      const isSmallest = () => one.quota() === MIN_STREAMS && other.quota() === MIN_STREAMS;
      await lag(server, "the quota is the smallest", isSmallest);
      late = await connect(server);
      return late.quota() < MAX_STREAMS;
    };
    await waitFor("it applies to new connections", laterToo);
    for (const { session } of [one, other, late])
      expect(await call(session)).toEqual([constants.NGHTTP2_NO_ERROR, 200]);
    // They learn so though they ask for nothing: their calls may all wait for it.
    await waitFor("it is as it was", () => [one, other, late].every(({ quota }) => quota() === MAX_STREAMS));
  });

  it("are told to make calls again that were on their way, and keep their connection", async () => {
    const server = await newServer({ runtime });
    const { session, errors, quota } = await connect(server);
    let refused = 0;
    // node:http2 counts them as invalid frames, of which a session takes only so many.
    while (refused <= 300) {
      const calls: ReturnType<typeof call>[] = [];
      await waitFor("it may have all streams", async () => (await call(session)) && quota() === MAX_STREAMS);
      await lag(
        server,
        "it may have fewer",
        () => quota() <= 100,
        // What it may have when they are sent is more than it may have when they are read.
        () => calls.push(...Array.from({ length: 200 }, () => call(session))),
      );
      const outcomes = await Promise.all(calls);
      for (const outcome of outcomes) {
        expect([
          [constants.NGHTTP2_NO_ERROR, 200],
          [constants.NGHTTP2_REFUSED_STREAM, 0],
        ]).toContainEqual(outcome);
      }
      const toldAgain = outcomes.filter(([code]) => code === constants.NGHTTP2_REFUSED_STREAM);
      for (const _ of toldAgain) expect(await call(session)).toEqual([constants.NGHTTP2_NO_ERROR, 200]);
      refused += toldAgain.length;
    }
    expect(errors).toEqual([]);
  });

  it("may have as many calls beside those that last", async () => {
    const server = await newServer({ runtime });
    const { session, quota } = await connect(server);
    const watch = () =>
      new Promise<void>((resolve) => {
        const headers = {
          ":method": "POST",
          ":path": "/grpc.health.v1.Health/Watch",
          "content-type": "application/grpc",
        };
        const stream = session.request(headers);
        stream.on("error", () => {});
        stream.on("data", () => resolve());
        stream.end(Buffer.alloc(5));
      });
    await Promise.all(Array.from({ length: 20 }, watch));
    await lag(server, "the quota is the smallest", () => quota() === MIN_STREAMS + 20);
    expect(await call(session)).toEqual([constants.NGHTTP2_NO_ERROR, 200]);
  });
});
