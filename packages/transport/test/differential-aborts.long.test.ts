import { constants } from "node:http2";
import { connect as connectTcp } from "node:net";
import { Code } from "@connectrpc/connect";
import { waitFor } from "@user-group-service/testing/wait";
import fc from "fast-check";
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { exchangeAlike } from "./support/differential-compare.ts";
import { resetUpload, wholeUpload } from "./support/differential-frames.ts";
import { FORMS, type Form, requestOf } from "./support/differential-requests.ts";
import { type Candidate, openPair, send } from "./support/differential-servers.ts";
import { talk } from "./support/differential-service.ts";
import { http1Pieces, type RawRequest, writeTo } from "./support/differential-wire.ts";

const pair = await openPair({ readMaxBytes: 1_000_000 });
afterAll(() => pair.close());
beforeEach(() => {
  // Connect's adapter logs disconnected callers to the console.
  vi.spyOn(console, "error").mockReturnValue();
});
afterEach(async () => {
  vi.restoreAllMocks();
  for (const form of FORMS)
    expect((await exchangeAlike(pair, requestOf(form, talk({ text: "well?" })))).status).toBe(200);
});

const CANDIDATES = ["ours", "connect"] as const;
const HTTP2 = FORMS.filter(({ http }) => http === 2);
const where = (candidate: Candidate) => candidate.effects.map((effect) => effect["where"]);

interface Sent {
  /** Resolves when the first bytes of the answer arrive. */
  readonly answered: Promise<unknown>;
  /** Abandons the request. Over HTTP/2, resets the stream with `code`. Over HTTP/1.1, closes the connection. */
  giveUp(code: number): Promise<void>;
}

/** Sends the first `length` bytes of a request. Default: all bytes. */
function start({ url, session }: Candidate, request: RawRequest, length = request.body.byteLength): Sent {
  if (request.http === 1) {
    const socket = connectTcp(Number(new URL(url).port), "127.0.0.1");
    socket.on("error", () => {});
    const [head = Buffer.alloc(0), ...data] = http1Pieces(request);
    const left = request.body.byteLength - length;
    const body = Buffer.concat(data);
    socket.write(Buffer.concat([head, body.subarray(0, body.byteLength - left)]));
    return {
      answered: new Promise((resolve) => socket.once("data", resolve)),
      giveUp: () =>
        new Promise((resolve) => {
          socket.once("close", () => resolve());
          socket.destroy();
        }),
    };
  }
  const headers = Object.fromEntries([...request.headers, [":method", request.method], [":path", request.target]]);
  const stream = session().request(headers, { endStream: false });
  stream.on("error", () => {});
  stream.write(request.body.subarray(0, length));
  if (length === request.body.byteLength) stream.end();
  return {
    answered: new Promise((resolve) => stream.once("data", resolve)),
    giveUp: (code) =>
      new Promise((resolve) => {
        if (stream.destroyed) return resolve();
        stream.once("close", () => resolve());
        stream.resume();
        stream.close(code);
      }),
  };
}

describe.each(FORMS)("a disconnected caller: $name", (form) => {
  const { NGHTTP2_CANCEL, NGHTTP2_NO_ERROR, NGHTTP2_INTERNAL_ERROR } = constants;
  it.each([NGHTTP2_CANCEL, NGHTTP2_NO_ERROR, NGHTTP2_INTERNAL_ERROR])(
    "aborts the signal of the call (reset code %i)",
    async (code) => {
      for (const name of CANDIDATES) {
        const { effects } = pair[name];
        effects.length = 0;
        const sent = start(pair[name], requestOf(form, talk({ script: { wait: true } })));
        await waitFor("the implementation is called", () => where(pair[name]).includes("implementation"));
        await sent.giveUp(code);
        await waitFor("the signal of the call aborts", () => where(pair[name]).includes("failure"));
        expect(where(pair[name])).toEqual(["interceptor", "implementation", "aborted", "failure"]);
      }
      // The port uses one code for every disconnected caller. Connect uses Canceled, Aborted, Internal or none.
      expect(pair.ours.effects[2]).toEqual({ where: "aborted", code: Code.Canceled, name: "ConnectError" });
    },
  );
});

describe.each(FORMS)("a deadline: $name", (form) => {
  it("aborts the signal of the call", async () => {
    // The deadline is long enough for the call to start on a busy machine.
    const headers = form.protocol.startsWith("grpc")
      ? [["grpc-timeout", "300m"] as const]
      : [["connect-timeout-ms", "300"] as const];
    const { effects } = await exchangeAlike(pair, requestOf(form, talk({ script: { wait: true } }), { headers }));
    expect(effects).toContainEqual({ where: "aborted", code: Code.DeadlineExceeded, name: "ConnectError" });
  });
});

describe.each(FORMS)("a shutdown: $name", (form) => {
  it("aborts the signal of the call", async () => {
    const stop = new AbortController();
    const own = await openPair({ shutdownSignal: stop.signal });
    const answers = CANDIDATES.map((name) => send(own[name], requestOf(form, talk({ script: { wait: true } }))));
    await waitFor("both implementations are called", () =>
      CANDIDATES.every((name) => where(own[name]).includes("implementation")),
    );
    stop.abort(new Error("closing"));
    const [ours, connect] = await Promise.all(answers);
    expect(ours?.effects.map(({ where: what, code, name }) => [what, code, name])).toContainEqual([
      "aborted",
      undefined,
      "Error",
    ]);
    expect(ours?.body).toEqual(connect?.body);
    expect([ours?.status, ours?.trailers]).toEqual([connect?.status, connect?.trailers]);
    await own.close();
  });
});

const uploadOf = (form: Form) => requestOf(form, talk({ text: "a".repeat(1000), list: ["b"] }), { withLength: false });

describe.each(FORMS)("an abandoned upload: $name", (form) => {
  it("does not reach the implementation", async () => {
    const request = uploadOf(form);
    const { effects, url } = pair.ours;
    for (const length of [0, 1, 5, 100, request.body.byteLength - 3, request.body.byteLength]) {
      for (const code of [constants.NGHTTP2_CANCEL, constants.NGHTTP2_NO_ERROR]) {
        effects.length = 0;
        if (form.http === 2) await writeTo(url, resetUpload(request, length, code));
        else await start(pair.ours, request, Math.min(length, request.body.byteLength - 1)).giveUp(code);
        await settled(url);
        expect([length, code, effects]).toEqual([length, code, []]);
      }
    }
    const whole = form.http === 2 ? wholeUpload(request) : Buffer.concat(http1Pieces(request));
    await writeTo(url, whole);
    await waitFor("the complete upload reaches the implementation", () => where(pair.ours).includes("implementation"));
  });
});

/** Waits until the server has processed all bytes that were sent before this call. */
async function settled(url: string): Promise<void> {
  for (let i = 0; i < 3; i++) await writeTo(url, Buffer.from("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
}

describe.each(FORMS)("an abandoned answer: $name", (form) => {
  it("does not stop the server", async () => {
    for (const name of CANDIDATES) {
      // node:http2 counts abandoned answers as memory of the connection. Above 10 MB, it refuses new streams.
      for (let i = 0; i < 4; i++) {
        const sent = start(pair[name], requestOf(form, talk({ script: { size: 300_000 } })));
        await sent.answered;
        await sent.giveUp(constants.NGHTTP2_CANCEL);
      }
    }
  });
});

it("the servers keep serving when clients abandon requests at any byte", async () => {
  const script = fc.constantFrom(undefined, { size: 100_000 }, { wait: true } as const);
  const cases = fc.tuple(
    fc.constantFrom(...FORMS),
    script,
    fc.double({ min: 0, max: 1, noNaN: true }),
    fc.constantFrom(constants.NGHTTP2_CANCEL, constants.NGHTTP2_NO_ERROR, constants.NGHTTP2_FLOW_CONTROL_ERROR),
  );
  await fc.assert(
    fc.asyncProperty(cases, async ([form, given, part, code]) => {
      const request = requestOf(form, talk({ text: "abc", script: given ?? {} }));
      const length = Math.floor(part * request.body.byteLength);
      await Promise.all(CANDIDATES.map((name) => start(pair[name], request, length).giveUp(code)));
    }),
    { seed: 3, numRuns: 300 },
  );
});

it("the servers keep serving when connections close with calls in flight", async () => {
  for (const name of CANDIDATES) {
    const candidate = pair[name];
    candidate.effects.length = 0;
    for (const form of HTTP2) start(candidate, requestOf(form, talk({ script: { wait: true } })));
    const called = () => where(candidate).filter((what) => what === "implementation").length === HTTP2.length;
    await waitFor("every implementation is called", called);
    candidate.session().destroy();
    const reported = () => where(candidate).filter((what) => what === "aborted").length === HTTP2.length;
    await waitFor("every signal aborts", reported);
  }
});
