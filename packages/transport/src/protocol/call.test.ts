import { create } from "@bufbuild/protobuf";
import { createContextValues, type HandlerContext, type Interceptor } from "@connectrpc/connect";
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
  peerAddress: () => "",
  url: () => URL_OF_CALL,
  requestSignal: () => new AbortController().signal,
};

/** The only method of some routes. */
function methodOf(options: RpcOptions): UnaryMethod {
  return collectRpcs(options)[0]?.unary as UnaryMethod;
}

/** A call of `REQUEST`. */
function callOf(method: UnaryMethod, timeoutMs?: number): Call {
  const call = new Call({
    method: method.desc,
    protocolName: "grpc",
    request: REQUEST,
    contextValues: createContextValues(),
    isOpen: false,
    admission: new Admission({}),
  });
  call.enter(method);
  if (timeoutMs !== undefined) call.expireAfter(timeoutMs);
  return call;
}

/** Calls through the interceptors; what the implementation saw. */
async function call(interceptors: Interceptor[]): Promise<HandlerContext> {
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
  const call = callOf(method);
  await call.invoke(create(TalkSchema));
  call.leave();
  return seen as HandlerContext;
}

describe("a call", () => {
  it("tells the implementation all that Connect's context has", async () => {
    const context = await call([]);
    expect(context).toMatchObject({ url: URL_OF_CALL, requestMethod: "POST", protocolName: "grpc" });
    expect(context.service).toBe(TalkService);
    const { timeoutMs } = context;
    expect(timeoutMs()).toBeUndefined();
    expect(context.signal.aborted).toBe(true);
  });

  it.each([0.75, 1500.5, 20_000.001])("has whole milliseconds left of %d, as with Connect", async (timeoutMs) => {
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
  });

  it("stays whole when an interceptor passes on a copy", async () => {
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

  it("knows its call where an interceptor passes on a copy while others are under way", async () => {
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

  it("leaves a signal that an interceptor replaced as it is", async () => {
    const controller = new AbortController();
    const replacing: Interceptor = (next) => (req) => next({ ...req, signal: controller.signal } as never);
    const context = await call([replacing]);
    expect(context.signal).toBe(controller.signal);
  });

  it("passes interceptors that are made once for all calls of a method", async () => {
    let made = 0;
    const counted: Interceptor = (next) => {
      made++;
      return (req) => next(req);
    };
    const method = methodOf({
      routes: (router) => router.rpc(TalkService.method.say, ({ text }) => ({ text })),
      interceptors: [counted],
    });
    for (const text of ["a", "b"]) {
      const answer = await callOf(method).invoke(create(TalkSchema, { text }));
      expect(answer).toMatchObject({ text });
    }
    // Once for the calls of this transport, and never for those of Connect's handler, of which there are none.
    expect(made).toBe(1);
  });

  it("fails when an interceptor passes on what is no request of a call", async () => {
    const inventing: Interceptor = (next) => () => next({ stream: false } as never);
    await expect(call([inventing])).rejects.toThrow(TypeError);
  });
});
