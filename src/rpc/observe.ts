import { randomUUID } from "node:crypto";
import { setImmediate } from "node:timers/promises";
import type { DescMethod, Message } from "@bufbuild/protobuf";
import { Code, ConnectError, type ContextValues, type Interceptor } from "@connectrpc/connect";
import { codeToString } from "@connectrpc/connect/protocol-connect";
import { type CallKind, type CallSeries, CODE_OK } from "../observability/call-metrics.ts";
import { errorFields, type Logger } from "../observability/log.ts";
import type { OnRefused } from "../transport/index.ts";
import { callerFields, groupFields } from "./call-log.ts";
import { kProtocol, kRequestId, type WireProtocol } from "./context.ts";
import { toCallError } from "./errors.ts";
import { abortError, readMessages } from "./read-streams.ts";
import { refusedError } from "./refusals.ts";

/** The header with the id of a request. A caller may send one; the response repeats it. */
export const REQUEST_ID_HEADER = "x-request-id";

/** What observes calls. */
export interface Observers {
  readonly logger: Logger;
  /** Returns the counters for calls of a kind over a protocol. */
  readonly calls: (kind: CallKind, protocol: string, codes?: readonly string[]) => CallSeries;
  /** Aborts when the service begins to shut down. */
  readonly shutdownSignal?: AbortSignal;
}

const REQUEST_ID = /^[\x21-\x7e]{1,128}$/;

/** Codes that mean a fault of the server. */
const SERVER_FAULTS: ReadonlySet<Code> = new Set([Code.Unknown, Code.Internal, Code.DataLoss, Code.Unavailable]);

/** The request id that the caller sent, or a new one if it sent none or an invalid one. */
function requestIdOf(header: { get(name: string): string | null }): string {
  const given = header.get(REQUEST_ID_HEADER);
  return given !== null && REQUEST_ID.test(given) ? given : randomUUID();
}

/**
 * Counts, times and logs every call, adds the request id to every response, and converts every failure to an error that
 * the caller may see.
 */
export function observeInterceptor(observers: Observers): Interceptor {
  return (next) => async (req) => {
    const { method, contextValues: values } = req;
    const protocol = values.get(kProtocol);
    const call: ObservedCall = {
      method,
      protocol,
      requestId: requestIdOf(req.header),
      started: performance.now(),
      values,
      input: req.stream ? undefined : req.message,
      series: seriesOf(observers, method, protocol),
    };
    call.series.start();
    values.set(kRequestId, call.requestId);
    try {
      const response = await next(req.stream ? { ...req, message: readMessages(req, call) } : req);
      response.header.set(REQUEST_ID_HEADER, call.requestId);
      // Most responses contain a token, and none should be cached.
      response.header.set("cache-control", "no-store");
      if (response.stream)
        return { ...response, message: observeStream(observers, call, response.message, req.signal) };
      observeEnd(observers, call, undefined, response.message);
      return response;
    } catch (failure) {
      throw observeFailedEnd(observers, call, (req.stream && abortError(req.signal, failure)) || failure);
    }
  };
}

/** What is recorded when a call ends. */
interface ObservedCall {
  /** Undefined for a request that names no method. */
  readonly method: DescMethod | undefined;
  /** `none` for a request that is not a call. */
  readonly protocol: WireProtocol | "none";
  readonly requestId: string;
  /** `performance.now()` when the call began. */
  readonly started: number;
  /** What authorization stored; undefined when the request did not become a call. */
  readonly values: ContextValues | undefined;
  /** The message of a unary request; undefined for a stream, and for a request that did not become a call. */
  readonly input: Message | undefined;
  readonly series: CallSeries;
  /** Whether the request is at fault, whatever the code. Default: the code decides. */
  isRefused?: boolean;
}

/** Counts and logs every request that is refused before it becomes a call, and makes the error for its caller. */
export function observeRefusals(observers: Observers): OnRefused {
  return (refusal, request) => {
    const { method, protocolName, header, arrived, contextValues: values } = request;
    const protocol = (protocolName ?? "none") as WireProtocol | "none";
    const call: ObservedCall = {
      method,
      protocol,
      requestId: requestIdOf(header),
      started: startTimeOf(arrived),
      values,
      input: undefined,
      series: seriesOf(observers, method, protocol),
      // An unexpected error in authorization or an endpoint is a fault of the server.
      isRefused: refusal.kind !== "unauthorized" && refusal.kind !== "endpoint",
    };
    call.series.start();
    return observeFailedEnd(observers, call, refusedError(refusal, request));
  };
}

/**
 * Converts an arrival time to the scale of `performance.now()`.
 *
 * @param arrived in milliseconds of Unix time; undefined: now
 */
function startTimeOf(arrived: number | undefined): number {
  return performance.now() - (arrived === undefined ? 0 : Math.max(0, Date.now() - arrived));
}

/** The codes whose counters exist from the start, so that a monitor sees their first increase. */
const CODES: readonly string[] = [
  CODE_OK,
  ...[
    Code.Canceled,
    Code.InvalidArgument,
    Code.DeadlineExceeded,
    Code.NotFound,
    Code.AlreadyExists,
    Code.PermissionDenied,
    Code.ResourceExhausted,
    Code.Aborted,
    Code.Unimplemented,
    Code.Internal,
    Code.Unavailable,
    Code.DataLoss,
    Code.Unauthenticated,
  ].map((code) => Code[code]),
];

/** Creates the counters for calls of methods over protocols, starting at zero. */
export function prepareSeries(
  { calls }: Observers,
  methods: readonly DescMethod[],
  protocols: readonly WireProtocol[],
): void {
  for (const method of methods) for (const protocol of protocols) calls(kindOf(method), protocol, CODES);
}

function observeFailedEnd(observers: Observers, call: ObservedCall, failure: unknown): ConnectError {
  const error = toCallError(failure);
  error.metadata.set(REQUEST_ID_HEADER, call.requestId);
  observeEnd(observers, call, error);
  return error;
}

function observeEnd(observers: Observers, call: ObservedCall, error: ConnectError | undefined, output?: Message): void {
  const seconds = (performance.now() - call.started) / 1000;
  call.series.end(error ? (Code[error.code] ?? "Unknown") : CODE_OK, seconds);
  const isFault = error !== undefined && SERVER_FAULTS.has(error.code) && !call.isRefused;
  // Most calls are not logged, so their fields are put together only when they are.
  if (isFault || observers.logger.isLevelEnabled("debug"))
    log(observers.logger, call, { error, isFault, output, seconds });
}

/** How a call ended. */
interface Outcome {
  readonly error: ConnectError | undefined;
  /** Whether the server is at fault. */
  readonly isFault: boolean;
  readonly output: Message | undefined;
  readonly seconds: number;
}

/** Writes the one line of a call. */
function log(logger: Logger, call: ObservedCall, { error, isFault, output, seconds }: Outcome): void {
  const { method, protocol, requestId, values, input } = call;
  const fields = {
    request_id: requestId,
    method: method ? kindOf(method).name : "none",
    protocol,
    code: error ? codeToString(error.code) : "ok",
    seconds,
    ...callerFields(values),
    ...groupFields(values, { input, output }),
    ...(error && errorFields(error.cause ?? error)),
  };
  if (!isFault) logger.debug(fields, error ? "call refused" : "call");
  // An outage of Redis or its replicas mostly passes by itself; any other fault needs somebody to look at it.
  else if (error?.code === Code.Unavailable) logger.warn(fields, "call failed");
  else logger.error(fields, "call failed");
}

function seriesOf({ calls }: Observers, method: DescMethod | undefined, protocol: string): CallSeries {
  return calls(method ? kindOf(method) : UNKNOWN, protocol);
}

/** A kind of call with its name in the log, `package.Service/Method`. */
type NamedKind = CallKind & { readonly name: string };

/** The kind of requests that name no served method. Callers must not be able to choose label values. */
const UNKNOWN: CallKind = { type: "unary", service: "unknown", method: "unknown" };

const TYPES = {
  unary: "unary",
  client_streaming: "client_stream",
  server_streaming: "server_stream",
  bidi_streaming: "bidi_stream",
} as const;

const kinds = new WeakMap<DescMethod, NamedKind>();

/** The kind of a method's calls, made once per method. */
function kindOf(method: DescMethod): NamedKind {
  let kind = kinds.get(method);
  if (kind === undefined) {
    const service = method.parent.typeName;
    kind = { type: TYPES[method.methodKind], service, method: method.name, name: `${service}/${method.name}` };
    kinds.set(method, kind);
  }
  return kind;
}

/** Passes on the messages of a response. The call ends with the last of them. */
async function* observeStream<T>(
  observers: Observers,
  call: ObservedCall,
  messages: AsyncIterable<T>,
  signal: AbortSignal,
): AsyncIterable<T> {
  // If the reader stops early, it was because the client disconnected.
  let error: ConnectError | undefined = new ConnectError("the client disconnected", Code.Canceled);
  try {
    yield* messages;
    // When a client resets a stream, the request may end one turn before the signal aborts.
    await setImmediate();
    // A stream that ends because the service shuts down ends successfully.
    error = signal.reason === observers.shutdownSignal?.reason ? undefined : abortError(signal);
  } catch (failure) {
    error = abortError(signal, failure) ?? toCallError(failure);
    throw error;
  } finally {
    observeEnd(observers, call, error);
  }
}
