import { create, type DescMessage, type MessageInitShape } from "@bufbuild/protobuf";
import { ConnectError, type ConnectRouter, type HandlerContext, type Interceptor } from "@connectrpc/connect";
import { type Plain, PlainSchema } from "../gen/talk/v1/plain_pb.ts";
import { type Talk, TalkSchema, TalkService } from "../gen/talk/v1/talk_pb.ts";

/** A message of the test service: `Plain` for the method `Tell`, `Talk` for all other methods. */
export type Spoken = Talk | Plain;

type Fields = readonly (readonly [string, string])[];

/** Instructions for the implementation and the interceptors, as JSON in the field `script` of a message. */
export interface Script {
  readonly fail?: {
    /** The code of the error. If omitted, the failure is a plain Error. */
    readonly code?: number;
    readonly message: string;
    readonly metadata?: Fields;
    readonly details?: number;
  };
  /** The place of the failure. Default: the implementation. */
  readonly failIn?: "interceptor" | "interceptor after";
  /** Whether the call waits until its signal aborts, and then fails with the reason of the signal. */
  readonly wait?: true;
  readonly headers?: Fields;
  readonly trailers?: Fields;
  /** The length of the response text. */
  readonly size?: number;
  /** The response. Default: the request's message. */
  readonly answer?: "nothing" | "a part" | "unserializable value" | "out-of-range value" | "value without JSON form";
  /** The part of the call that an interceptor replaces. */
  readonly replace?: "message" | "request header" | "answer" | "answer header" | "answer trailer";
}

export type Effects = { readonly [what: string]: unknown }[];

export function schemaOf({ $typeName }: Spoken): DescMessage {
  return $typeName === PlainSchema.typeName ? PlainSchema : TalkSchema;
}

export function talk(
  init: Omit<MessageInitShape<typeof TalkSchema>, "script" | "$typeName"> & { readonly script?: Script | undefined },
): Talk {
  return create(TalkSchema, { ...init, script: scriptText(init.script) });
}

export function plain(
  init: Omit<MessageInitShape<typeof PlainSchema>, "script" | "$typeName"> & { readonly script?: Script | undefined },
): Plain {
  return create(PlainSchema, { ...init, script: scriptText(init.script) });
}

export function scriptText(script: Script | undefined): string {
  return script === undefined ? "" : JSON.stringify(script);
}

/**
 * Returns all values of a message as text. If mutated bytes contain values that have no JSON form, the text contains
 * these values as well.
 */
function allOf(message: Spoken): string {
  return JSON.stringify(message, function (this: { readonly [key: string]: unknown }, key) {
    const value = this[key];
    if (typeof value === "bigint") return `${value}n`;
    if (typeof value === "number" && (!Number.isFinite(value) || Object.is(value, -0))) return `number ${value}`;
    return value instanceof Uint8Array ? `bytes ${Buffer.from(value).toString("hex")}` : value;
  });
}

/** Returns the routes of the test service. The service records its requests in `effects`. */
export function talkRoutes(effects: Effects): (router: ConnectRouter) => void {
  const say = async (message: Spoken, context: HandlerContext) => {
    const { signal, timeoutMs, protocolName, requestMethod, url, requestHeader } = context;
    const timeout = timeoutMs();
    effects.push({
      where: "implementation",
      message: allOf(message),
      header: [...requestHeader],
      timeout,
      // A short deadline may have passed by now.
      aborted: timeout === undefined || timeout > 1000 ? signal.aborted : undefined,
      protocolName,
      requestMethod,
      url,
      method: `${context.service.typeName}/${context.method.name}`,
    });
    const script = scriptOf(message);
    for (const [name, value] of script.headers ?? []) context.responseHeader.append(name, value);
    for (const [name, value] of script.trailers ?? []) context.responseTrailer.append(name, value);
    if (script.wait) {
      await new Promise((resolve) => {
        if (signal.aborted) resolve(undefined);
        else signal.addEventListener("abort", resolve);
      });
      const { code, name } = signal.reason as ConnectError;
      effects.push({ where: "aborted", code, name });
      throw signal.reason;
    }
    if (script.fail && script.failIn === undefined) throw errorOf(script.fail);
    return answerOf(message, script);
  };
  return (router) => {
    router.service(TalkService, {
      say,
      look: say,
      tell: say,
      async *watch(message: Talk, context: HandlerContext) {
        yield say(message, context);
        yield say(message, context);
      },
    } as never);
  };
}

/** Creates interceptors that record calls and follow the script. */
export function talkInterceptors(effects: Effects): Interceptor[] {
  const record: Interceptor = (next) => async (req) => {
    const { url, requestMethod, method, stream } = req;
    effects.push({ where: "interceptor", url, requestMethod, method: method.name, stream, header: [...req.header] });
    try {
      const res = await next(req);
      effects.push({ where: "after", header: [...res.header], trailer: [...res.trailer], stream: res.stream });
      return res;
    } catch (error) {
      effects.push({ where: "failure", error: ConnectError.from(error).message, name: (error as Error).name });
      throw error;
    }
  };
  const change: Interceptor = (next) => async (req) => {
    if (req.stream) return next(req);
    const { replace, fail, failIn } = scriptOf(req.message as Spoken);
    if (fail && failIn === "interceptor") throw errorOf(fail);
    if (replace === "request header") req.header.set("x-replaced", "yes");
    const header = new Headers([...req.header, ["x-new", "1"]]);
    const res = await next({
      ...req,
      ...(replace === "message" && { message: create(req.method.input, { text: "replaced" } as never) }),
      ...(replace === "request header" && { header }),
    } as typeof req);
    if (fail && failIn === "interceptor after") throw errorOf(fail);
    if (replace === "answer") {
      return { ...res, message: create(req.method.output, { text: "replaced" } as never) } as typeof res;
    }
    if (replace === "answer header") return { ...res, header: new Headers([...res.header, ["x-new", "1"]]) };
    if (replace === "answer trailer") return { ...res, trailer: new Headers([...res.trailer, ["x-new", "1"]]) };
    return res;
  };
  return [record, change];
}

/** Returns the script of a message; empty if mutations have broken the script. */
function scriptOf(message: Spoken): Script {
  try {
    return (JSON.parse(message.script) ?? {}) as Script;
  } catch {
    return {};
  }
}

function errorOf({ code, message, metadata, details = 0 }: NonNullable<Script["fail"]>): Error {
  if (code === undefined) return new Error(message);
  const error = new ConnectError(message, code, new Headers((metadata ?? []).map(([name, value]) => [name, value])));
  for (let i = 0; i < details; i++) {
    if (i % 2 === 0) error.details.push({ desc: TalkSchema, value: { text: `detail ${i}` } as never });
    else error.details.push({ type: "talk.v1.Unknown", value: new Uint8Array([8, i]) });
  }
  return error;
}

function answerOf(message: Spoken, { answer, size }: Script): unknown {
  switch (answer) {
    case "nothing":
      return undefined;
    case "a part":
      return { text: "a part" };
    case "unserializable value":
      return { text: 1, number: "x", int64: "x" };
    case "out-of-range value":
      return { number: 2n ** 64n, int64: 2n ** 64n };
    case "value without JSON form":
      return { struct: { a: Number.NaN } };
  }
  if (size !== undefined) return create(schemaOf(message), { text: "ab".repeat(size / 2) } as never);
  return message;
}
