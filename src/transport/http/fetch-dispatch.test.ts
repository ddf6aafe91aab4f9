import { createContextValues } from "@connectrpc/connect";
import type { UniversalHandler } from "@connectrpc/connect/protocol";
import { describe, expect, it, vi } from "vitest";
import type { HttpRequest, HttpResponse, Route } from "../exchange.ts";
import { bareRefusal } from "../protocol/refusals.ts";
import { fetchDispatch } from "./fetch-dispatch.ts";

const URL_OF = "http://h.example/path?a=1&b=%20";

const noErrors = (error: unknown): void => {
  throw error;
};

function serverOf(serve: Route["serve"], isTooLong: Route["isTooLong"] = () => false, onError = noErrors) {
  return fetchDispatch({ find: () => ({ isTooLong, serve }), refuse: bareRefusal, onError });
}

const ok = (response: Partial<HttpResponse> = {}): HttpResponse => ({
  status: 200,
  headers: {},
  body: new Uint8Array(0),
  ...response,
});

/** A body in pieces of 10 bytes, without end; `taken` counts the pieces that were asked for. */
function endless() {
  const state = { taken: 0, canceled: false };
  const body = new ReadableStream<Uint8Array>({
    pull: (controller) => {
      state.taken++;
      controller.enqueue(new Uint8Array(10).fill(state.taken));
    },
    cancel: () => {
      state.canceled = true;
    },
  });
  return { body, state };
}

describe("a request", () => {
  it("becomes one of the wire", async () => {
    let seen: HttpRequest | undefined;
    const { fetch } = serverOf(async (request) => {
      seen = request;
      return ok();
    });
    const headers = { "X-One": "1", Accept: "text/plain" };
    await fetch(new Request(URL_OF, { method: "POST", headers, body: "text" }));
    expect(seen).toMatchObject({ httpMethod: "POST", target: "/path?a=1&b=%20" });
    expect(seen?.headers).toMatchObject({ "x-one": "1", accept: "text/plain" });
    expect(Buffer.from(seen?.body ?? []).toString()).toBe("text");
    expect(seen?.url()).toBe(URL_OF);
  });

  it("without a body has an empty one", async () => {
    let bytes = -1;
    const { fetch } = serverOf(async ({ body }) => {
      bytes = body.byteLength;
      return ok();
    });
    await fetch(new Request(URL_OF));
    expect(bytes).toBe(0);
  });

  it("is read no further than it can succeed", async () => {
    const { body, state } = endless();
    let seen: HttpRequest | undefined;
    const heads: number[] = [];
    const { fetch } = serverOf(
      async (request) => {
        seen = request;
        return ok({ status: 413 });
      },
      (received) => {
        heads.push(received[0] ?? -1);
        return received.byteLength > 25;
      },
    );
    const init = { method: "POST", body, duplex: "half" };
    expect((await fetch(new Request(URL_OF, init))).status).toBe(413);
    expect(seen?.body.byteLength).toBe(30);
    expect(heads).toEqual([1, 1, 1]);
    expect(state.canceled).toBe(true);
    expect(state.taken).toBeLessThan(6);
  });

  it("hears when its caller goes", async () => {
    const caller = new AbortController();
    let aborted = false;
    const { fetch } = serverOf(async (request) => {
      const signal = request.requestSignal();
      caller.abort();
      aborted = signal.aborted;
      return ok();
    });
    await fetch(new Request(URL_OF, { signal: caller.signal }));
    expect(aborted).toBe(true);
  });
});

describe("an answer", () => {
  it("keeps its status, its fields and its body", async () => {
    const headers = { "x-a": "1", "set-cookie": ["a=1", "b=2"], "x-none": undefined, "content-length": 3 };
    const { fetch } = serverOf(async () => ok({ status: 404, headers, body: Buffer.from("abc") }));
    const response = await fetch(new Request(URL_OF));
    expect([response.status, await response.text()]).toEqual([404, "abc"]);
    expect(response.headers.getSetCookie()).toEqual(["a=1", "b=2"]);
    expect([...response.headers.keys()].sort()).toEqual(["content-length", "set-cookie", "set-cookie", "x-a"]);
  });

  it.each([
    ["HEAD", 200],
    ["GET", 204],
    ["GET", 304],
  ])("to %s with status %i has no body", async (method, status) => {
    const headers = { "content-length": "3" };
    const { fetch } = serverOf(async () => ok({ status, headers, body: Buffer.from("abc") }));
    const response = await fetch(new Request(URL_OF, { method }));
    expect([response.status, response.body, response.headers.get("content-length")]).toEqual([status, null, "3"]);
  });

  it("tells nothing of what nobody foresaw, but the log does", async () => {
    const heard: unknown[] = [];
    const failure = new Error("inner thoughts");
    const { fetch } = serverOf(
      () => Promise.reject(failure),
      () => false,
      (error) => void heard.push(error),
    );
    const response = await fetch(new Request(URL_OF));
    expect([response.status, await response.text()]).toEqual([500, ""]);
    expect(heard).toEqual([failure]);
  });

  it("to a caller that is gone is no failure", async () => {
    const caller = new AbortController();
    const { fetch } = serverOf(async () => {
      caller.abort();
      throw new Error("nobody reads this");
    });
    expect((await fetch(new Request(URL_OF, { signal: caller.signal }))).status).toBe(499);
  });

  it.each(["application/grpc", "application/grpc+proto", "application/grpc+json", "application/grpc;x=y"])(
    "to %s says that gRPC is not served",
    async (type) => {
      const { fetch } = serverOf(async () => ok());
      const response = await fetch(new Request(URL_OF, { method: "POST", headers: { "content-type": type } }));
      expect([response.status, response.headers.get("grpc-status")]).toEqual([200, "12"]);
      expect(decodeURIComponent(response.headers.get("grpc-message") ?? "")).toContain("use gRPC-Web or Connect");
    },
  );
});

it("drains once every request has its answer", async () => {
  const answers: (() => void)[] = [];
  const { fetch, drain } = serverOf(() => new Promise((resolve) => answers.push(() => resolve(ok()))));
  const first = fetch(new Request(URL_OF));
  const second = fetch(new Request(URL_OF));
  await Promise.resolve();
  let drained = false;
  const draining = drain().then(() => {
    drained = true;
  });
  answers[0]?.();
  await first;
  expect(drained).toBe(false);
  answers[1]?.();
  await second;
  await draining;
  await drain();
});

/** Serves a stream for every request. */
function streamsOf(body: () => AsyncIterable<Uint8Array>) {
  const handler = Object.assign(async () => ({ status: 200, header: new Headers(), body: body() }), {
    method: {},
  } as UniversalHandler);
  return fetchDispatch({
    find: () => ({ handler, contextValues: createContextValues() }),
    refuse: bareRefusal,
    onError: noErrors,
  });
}

it("drains though nobody reads a stream, after a while", async () => {
  const { fetch, drain } = streamsOf(async function* () {
    for (;;) yield Buffer.alloc(65_536);
  });
  const response = await fetch(new Request(URL_OF));
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  try {
    const drained = drain();
    await vi.advanceTimersByTimeAsync(5000);
    await drained;
  } finally {
    vi.useRealTimers();
  }
  await expect(response.arrayBuffer()).rejects.toThrow();
});

it("drains once its streams have ended", async () => {
  let end = () => {};
  const ended = new Promise<void>((resolve) => (end = resolve));
  const { fetch, drain } = streamsOf(async function* () {
    yield Buffer.from("first");
    await ended;
    yield Buffer.from("last");
  });
  const response = await fetch(new Request(URL_OF));
  let isDrained = false;
  const drained = drain().then(() => (isDrained = true));
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  expect(Buffer.from((await reader.read()).value ?? []).toString()).toBe("first");
  await new Promise((resolve) => setImmediate(resolve));
  expect(isDrained).toBe(false);
  end();
  expect(Buffer.from((await reader.read()).value ?? []).toString()).toBe("last");
  expect((await reader.read()).done).toBe(true);
  await drained;
});
