import { constants } from "node:http2";
import { waitFor } from "@user-group-service/testing/wait";
import { afterEach, describe, expect, it, vi } from "vitest";
import { RecordHeaders } from "../src/protocol/headers.ts";
import { resetUpload } from "./support/differential-frames.ts";
import { FORMS, type Form, requestOf } from "./support/differential-requests.ts";
import { type Candidate, type Outcome, openPair, send } from "./support/differential-servers.ts";
import { talk } from "./support/differential-service.ts";
import { writeTo } from "./support/differential-wire.ts";
import { codeOf, type Excerpt, KNOWN_DIFFERENCES } from "./support/known-differences.ts";

afterEach(() => vi.restoreAllMocks());

function excerpt(outcome: Outcome, like: Excerpt): Excerpt {
  const all = {
    status: outcome.status,
    end: outcome.end,
    informational: outcome.informational,
    code: codeOf(outcome),
    headers: outcome.headers.find((line) => line.startsWith("x-")),
    calls: outcome.effects.filter(({ where }) => where === "implementation").length,
  };
  return Object.fromEntries(Object.entries(all).filter(([what]) => what in like));
}

for (const { name, reason, requests, ours, connect } of KNOWN_DIFFERENCES) {
  it(`the port ${name}. ${reason}`, async () => {
    vi.spyOn(console, "error").mockReturnValue();
    expect(requests.length).toBeGreaterThan(0);
    const outcomes = await Promise.all(
      requests.map(async (request) => {
        const own = await openPair();
        const outcome = await own.exchange(request);
        await own.close();
        return outcome;
      }),
    );
    for (const outcome of outcomes) {
      expect(excerpt(outcome.ours, ours)).toEqual(ours);
      expect(excerpt(outcome.connect, connect)).toEqual(connect);
    }
  });
}

describe("the port compared with Connect's adapter", () => {
  const form = FORMS.find(({ name }) => name === "connect binary over HTTP/2") as Form;

  it("does not pass a reset upload to the implementation", async () => {
    const pair = await openPair();
    const request = requestOf(form, talk({ text: "lost" }), { withLength: false });
    for (const candidate of [pair.ours, pair.connect]) {
      await writeTo(candidate.url, resetUpload(request, 0, 8));
      // This call uses another connection. The server processes the upload before it answers this call.
      await send({ ...candidate, effects: [] }, requestOf(form, talk({})));
    }
    expect([calls(pair.ours), calls(pair.connect)]).toEqual([1, 1]);
    await pair.close();
  });

  it("ignores a deadline beyond the range of setTimeout, like Connect's adapter", async () => {
    const pair = await openPair({ maxTimeoutMs: Number.MAX_SAFE_INTEGER });
    const headers = [["connect-timeout-ms", "9999999999"]] as const;
    const request = requestOf(form, talk({ script: { wait: true } }), { headers });
    // Node emits a warning for a timer that is too long.
    const warned = vi.spyOn(process, "emitWarning");
    for (const candidate of [pair.ours, pair.connect]) {
      const lasting = send(candidate, request);
      await waitFor("the implementation is called", () => calls(candidate) > 0);
      // This call starts after the first call. It ends at its own deadline, before the first call ends.
      const later = requestOf(form, talk({ script: { wait: true } }), { headers: [["connect-timeout-ms", "500"]] });
      await send({ ...candidate, effects: [] }, later);
      expect(candidate.effects.filter(({ where }) => where === "aborted").length).toBe(1);
      candidate.session().destroy();
      await lasting;
    }
    expect(warned).not.toHaveBeenCalled();
    await pair.close();
  });

  it("sends only the response headers that an interceptor returns; Connect also sends some of the earlier headers", async () => {
    const pair = await openPair();
    const headers = [
      ["set-cookie", "a=1"],
      ["set-cookie", "b=2"],
    ] as const;
    const request = requestOf(form, talk({ script: { headers, replace: "answer header" } }));
    const { ours, connect } = await pair.exchange(request);
    expect(ours.headers).toEqual(expect.arrayContaining(["set-cookie: a=1", "set-cookie: b=2", "x-new: 1"]));
    expect(connect.headers).not.toEqual(ours.headers);
    await pair.close();
  });

  it("reads the rest of an upload after an early answer, so that the caller can finish", async () => {
    const pair = await openPair();
    const large = requestOf(form, talk({ text: "a".repeat(200_000) }), { withLength: false });
    for (const candidate of [pair.ours, pair.connect]) {
      const stream = candidate
        .session()
        .request({ ":method": "POST", ":path": large.target, "content-type": "application/proto" });
      stream.write(large.body);
      stream.resume();
      await new Promise((resolve) => stream.once("end", resolve));
      await send(candidate, requestOf(form, talk({})));
      expect(stream.closed).toBe(false);
      stream.end(large.body);
      await new Promise((resolve) => stream.once("close", resolve));
      expect(stream.rstCode).toBe(constants.NGHTTP2_NO_ERROR);
    }
    await pair.close();
  });

  it("passes the headers of a call in an object that is not a Headers instance, but can be converted to Headers", () => {
    const ours = new RecordHeaders({ a: "1" });
    expect(ours).not.toBeInstanceOf(Headers);
    expect([...new Headers(ours)]).toEqual([["a", "1"]]);
  });
});

function calls({ effects }: Candidate): number {
  return effects.filter(({ where }) => where === "implementation").length;
}
