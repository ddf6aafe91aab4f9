import {
  create,
  createFileRegistry,
  type DescMessage,
  type DescService,
  type Message,
  toJsonString,
} from "@bufbuild/protobuf";
import {
  type FileDescriptorProto,
  FileDescriptorProtoSchema,
  FieldDescriptorProto_Label as Label,
  MethodOptions_IdempotencyLevel,
  FieldDescriptorProto_Type as Type,
} from "@bufbuild/protobuf/wkt";
import { ConnectError, type ConnectRouter, type HandlerContext, type Interceptor } from "@connectrpc/connect";

/** The only message of the test service: its own request and answer. */
export type Talk = Message<"differential.v1.Talk"> & {
  text: string;
  data: Uint8Array;
  number: bigint;
  list: string[];
  fields: { [key: string]: string };
  nested?: Talk;
  script: string;
};

type Fields = readonly (readonly [string, string])[];

/** What the implementation and the interceptors are told to do, as JSON in `Talk.script`. */
export interface Script {
  readonly fail?: {
    /** Undefined: a plain Error. */
    readonly code?: number;
    readonly message: string;
    readonly metadata?: Fields;
    readonly details?: number;
  };
  /** Where it fails. Default: in the implementation. */
  readonly failIn?: "interceptor" | "interceptor after";
  /** Whether it waits until its signal aborts, and fails with the signal's reason. */
  readonly wait?: true;
  readonly headers?: Fields;
  readonly trailers?: Fields;
  /** Length of the answer's text. */
  readonly size?: number;
  /** What is answered. Default: the request's message. */
  readonly answer?: "nothing" | "a part" | "what cannot be serialised";
  /** What an interceptor replaces. */
  readonly replace?: "message" | "request header" | "answer" | "answer header" | "answer trailer";
}

/** What happened in a server, in order. */
export type Effects = { readonly [what: string]: unknown }[];

const { optional, repeated } = { optional: Label.OPTIONAL, repeated: Label.REPEATED };
const TALK = ".differential.v1.Talk";

const file: FileDescriptorProto = create(FileDescriptorProtoSchema, {
  name: "differential/v1/talk.proto",
  package: "differential.v1",
  syntax: "proto3",
  messageType: [
    {
      name: "Talk",
      field: [
        { name: "text", jsonName: "text", number: 1, type: Type.STRING, label: optional },
        { name: "data", jsonName: "data", number: 2, type: Type.BYTES, label: optional },
        { name: "number", jsonName: "number", number: 3, type: Type.INT64, label: optional },
        { name: "list", jsonName: "list", number: 4, type: Type.STRING, label: repeated },
        {
          name: "fields",
          jsonName: "fields",
          number: 5,
          type: Type.MESSAGE,
          label: repeated,
          typeName: `${TALK}.FieldsEntry`,
        },
        { name: "nested", jsonName: "nested", number: 6, type: Type.MESSAGE, label: optional, typeName: TALK },
        { name: "script", jsonName: "script", number: 7, type: Type.STRING, label: optional },
      ],
      nestedType: [
        {
          name: "FieldsEntry",
          options: { mapEntry: true },
          field: [
            { name: "key", jsonName: "key", number: 1, type: Type.STRING, label: optional },
            { name: "value", jsonName: "value", number: 2, type: Type.STRING, label: optional },
          ],
        },
      ],
    },
  ],
  service: [
    {
      name: "TalkService",
      method: [
        { name: "Say", inputType: TALK, outputType: TALK },
        {
          name: "Look",
          inputType: TALK,
          outputType: TALK,
          options: { idempotencyLevel: MethodOptions_IdempotencyLevel.NO_SIDE_EFFECTS },
        },
        { name: "Watch", inputType: TALK, outputType: TALK, serverStreaming: true },
        { name: "Absent", inputType: TALK, outputType: TALK },
      ],
    },
  ],
});
const registry = createFileRegistry(file, () => undefined);

/** The test service: Say, Look (without side effects), Watch (a stream) and Absent (not implemented). */
export const TalkService = registry.getService("differential.v1.TalkService") as DescService;
/** The test service's message. */
export const TalkSchema = registry.getMessage("differential.v1.Talk") as DescMessage;

/** A message with these fields. */
export function talk(init: Partial<Omit<Talk, "script">> & { readonly script?: Script }): Talk {
  const script = init.script === undefined ? "" : JSON.stringify(init.script);
  return create(TalkSchema, { ...init, script } as never) as Talk;
}

/** The test service's implementation, which notes what it saw. */
export function talkRoutes(effects: Effects): (router: ConnectRouter) => void {
  const say = async (message: Talk, context: HandlerContext) => {
    const { signal, timeoutMs, protocolName, requestMethod, url, requestHeader } = context;
    const timeout = timeoutMs();
    effects.push({
      where: "implementation",
      message: toJsonString(TalkSchema, message),
      header: [...requestHeader],
      timeout,
      // A short deadline may have passed by now, or not.
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
      async *watch(message: Talk, context: HandlerContext) {
        yield say(message, context);
        yield say(message, context);
      },
    } as never);
  };
}

/** Interceptors that note what they see, and do as the script says. */
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
    const { replace, fail, failIn } = scriptOf(req.message as Talk);
    if (fail && failIn === "interceptor") throw errorOf(fail);
    if (replace === "request header") req.header.set("x-replaced", "yes");
    const header = new Headers([...req.header, ["x-new", "1"]]);
    const res = await next({
      ...req,
      ...(replace === "message" && { message: talk({ text: "replaced" }) }),
      ...(replace === "request header" && { header }),
    } as typeof req);
    if (fail && failIn === "interceptor after") throw errorOf(fail);
    if (replace === "answer") return { ...res, message: talk({ text: "replaced" }) } as typeof res;
    if (replace === "answer header") return { ...res, header: new Headers([...res.header, ["x-new", "1"]]) };
    if (replace === "answer trailer") return { ...res, trailer: new Headers([...res.trailer, ["x-new", "1"]]) };
    return res;
  };
  return [record, change];
}

/** The script of a message; an empty one where mutations broke it. */
function scriptOf(message: Talk): Script {
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
    else error.details.push({ type: "differential.v1.Unknown", value: new Uint8Array([8, i]) });
  }
  return error;
}

function answerOf(message: Talk, { answer, size }: Script): unknown {
  if (answer === "nothing") return undefined;
  if (answer === "a part") return { text: "a part" };
  if (answer === "what cannot be serialised") return { text: 1, number: "x" };
  if (size !== undefined) return talk({ text: "ab".repeat(size / 2) });
  return message;
}
