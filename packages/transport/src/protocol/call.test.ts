import { create } from "@bufbuild/protobuf";
import type { HandlerContext, Interceptor } from "@connectrpc/connect";
import { describe, expect, it } from "vitest";
import { TalkSchema, TalkService } from "../../test/gen/talk/v1/talk_pb.ts";
import type { RequestHead } from "../http-types.ts";
import { Admission } from "./admission.ts";
import { Call } from "./call.ts";
import { collectRpcs, type RpcOptions, type UnaryMethod } from "./methods.ts";

const URL_OF_CALL = "http://localhost/talk.v1.TalkService/Say";

const REQUEST: RequestHead = {
  httpMethod: "POST",
  target: "/talk.v1.TalkService/Say",
  headers: {},
  arrived: Date.now(),
  isDisconnected: false,
  unreadBytes: 0,
  peerAddress: () => "",
  url: () => URL_OF_CALL,
  pauseConnections: () => [],
  requestSignal: () => new AbortController().signal,
};

function methodOf(options: RpcOptions): UnaryMethod {
  return collectRpcs(options)[0]?.unary as UnaryMethod;
}

function callOf(method: UnaryMethod, timeoutMs?: number, request = REQUEST): Call {
  const call = new Call({
    method: method.desc,
    protocolName: "grpc",
    request,
    isOpen: false,
    gate: new Admission({}),
  });
  call.enter(method);
  if (timeoutMs !== undefined) call.expireAfter(timeoutMs);
  return call;
}

async function call(interceptors: Interceptor[], request = REQUEST): Promise<HandlerContext> {
  let seen: HandlerContext | undefined;
  const method = methodOf({
    routes: (router) =>
      router.rpc(TalkService.method.say, (_request, context) => {
        seen = context;
        expect(context.signal.aborted).toBe(false);
        return {};
      }),
    interceptors,
  });
  const call = callOf(method, undefined, request);
  await call.invoke(create(TalkSchema));
  call.leave();
  return seen as HandlerContext;
}

describe("a call", () => {
  it("passes a complete HandlerContext to the implementation", async () => {
    const context = await call([]);
    expect(context).toMatchObject({ url: URL_OF_CALL, requestMethod: "POST", protocolName: "grpc" });
    expect(context.service).toBe(TalkService);
    const { timeoutMs } = context;
    expect(timeoutMs()).toBeUndefined();
    expect(context.signal.aborted).toBe(true);
  });

  it.each([0.75, 1500.5, 20_000.001])(
    "reports the time left of %d ms in whole milliseconds, like Connect",
    async (timeoutMs) => {
      const left: (number | undefined)[] = [];
      const method = methodOf({
        routes: (router) =>
          router.rpc(TalkService.method.say, (_request, context) => {
            left.push(context.timeoutMs());
            return {};
          }),
      });
      const call = callOf(method, timeoutMs);
      await call.invoke(create(TalkSchema));
      call.leave();
      expect(left).toEqual([expect.toSatisfy(Number.isInteger)]);
      expect(left[0]).toBeLessThanOrEqual(timeoutMs);
    },
  );

  it("keeps url and signal of the request when an interceptor passes on a spread copy", async () => {
    const seen: unknown[] = [];
    const copying: Interceptor = (next) => (req) => next({ ...req, header: new Headers({ "x-copy": "1" }) } as never);
    const looking: Interceptor = (next) => (req) => {
      seen.push(req.url, req.signal.aborted, req.header.get("x-copy"));
      return next(req);
    };
    const context = await call([copying, looking]);
    expect(seen).toEqual([URL_OF_CALL, false, "1"]);
    expect(context.requestHeader.get("x-copy")).toBe("1");
    expect(context.url).toBe(URL_OF_CALL);
  });

  it("reads the url of the request once when an interceptor passes on a spread copy", async () => {
    let reads = 0;
    const url = () => {
      reads++;
      return URL_OF_CALL;
    };
    const copying: Interceptor = (next) => (req) => next({ ...req } as never);
    const passing: Interceptor = (next) => (req) => next(req);
    await call([copying, passing, copying], { ...REQUEST, url });
    expect(reads).toBe(1);
  });

  it("keeps the response headers of concurrent calls apart when interceptors pass on copies", async () => {
    const method = methodOf({
      routes: (router) =>
        router.rpc(TalkService.method.say, ({ text }, { responseHeader }) => {
          responseHeader.set("x-text", text);
          return { text };
        }),
      interceptors: [
        (next) => async (req) => {
          await new Promise(setImmediate);
          return next({ ...req } as never);
        },
      ],
    });
    const calls = ["a", "b"].map((text) => ({ text, call: callOf(method) }));
    await Promise.all(calls.map(({ text, call }) => call.invoke(create(TalkSchema, { text }))));
    expect(calls.map(({ call }) => call.responseHeader.get("x-text"))).toEqual(["a", "b"]);
  });

  it("gives the implementation the signal that an interceptor has set", async () => {
    const controller = new AbortController();
    const replacing: Interceptor = (next) => (req) => next({ ...req, signal: controller.signal } as never);
    const context = await call([replacing]);
    expect(context.signal).toBe(controller.signal);
  });

  it("creates the interceptors once for all calls of a method", async () => {
    let created = 0;
    const counted: Interceptor = (next) => {
      created++;
      return (req) => next(req);
    };
    const method = methodOf({
      routes: (router) => router.rpc(TalkService.method.say, ({ text }) => ({ text })),
      interceptors: [counted],
    });
    for (const text of ["a", "b"]) {
      expect(await callOf(method).invoke(create(TalkSchema, { text }))).toMatchObject({ text });
    }
    expect(created).toBe(1);
  });

  it("fails with a TypeError when an interceptor passes on an object other than the request", async () => {
    const inventing: Interceptor = (next) => () => next({ stream: false } as never);
    await expect(call([inventing])).rejects.toThrow(TypeError);
  });
});
