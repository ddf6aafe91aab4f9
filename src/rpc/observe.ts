import { randomUUID } from "node:crypto";
import { setImmediate } from "node:timers/promises";
import type { DescMethod } from "@bufbuild/protobuf";
import { Code, ConnectError, type Interceptor } from "@connectrpc/connect";
import { codeToString } from "@connectrpc/connect/protocol-connect";
import { type CallKind, type CallSeries, CODE_OK } from "../observability/call-metrics.ts";
import { errorFields, type Logger } from "../observability/log.ts";
import type { OnRefused } from "../transport/index.ts";
import { kProtocol, type WireProtocol } from "./context.ts";
import { toCallError } from "./errors.ts";
import { givenUp, readMessages } from "./read-streams.ts";
import { refusedError } from "./refusals.ts";

/** Carries the id of a request; a caller may send one, and gets it back. */
export const REQUEST_ID_HEADER = "x-request-id";

/** Who is told of calls. */
export interface Observers {
  readonly logger: Logger;
  /** What is counted of the calls of a kind over a protocol. */
  readonly calls: (kind: CallKind, protocol: string, codes?: readonly string[]) => CallSeries;
  /** Aborts when the service begins to close. */
  readonly shutdownSignal?: AbortSignal;
}

const REQUEST_ID = /^[\x21-\x7e]{1,128}$/;

/** Failures that are not the caller's. */
const SERVER_FAULTS: ReadonlySet<Code> = new Set([Code.Unknown, Code.Internal, Code.DataLoss, Code.Unavailable]);

/** The id that the caller sent, or a new one when there is none that can be sent back. */
function requestIdOf(header: { get(name: string): string | null }): string {
  const given = header.get(REQUEST_ID_HEADER);
  return given !== null && REQUEST_ID.test(given) ? given : randomUUID();
}

/**
 * Counts, times and logs every call, gives every answer the id of its request,
 * and makes every failure one that the caller may see.
 */
export function observeInterceptor(observers: Observers): Interceptor {
  return (next) => async (req) => {
    const started = performance.now();
    const requestId = requestIdOf(req.header);
    const { method } = req;
    const protocol = req.contextValues.get(kProtocol);
    const series = seriesOf(observers, { method, protocol });
    const call: ObservedCall & { isRefused?: boolean } = { method, protocol, requestId, started, series };
    series.start();
    try {
      const response = await next(req.stream ? { ...req, message: readMessages(req, call) } : req);
      response.header.set(REQUEST_ID_HEADER, requestId);
      // Most answers hold a token, and none is of use later.
      response.header.set("cache-control", "no-store");
      if (response.stream)
        return { ...response, message: observeStream(observers, call, response.message, req.signal) };
      observeEnd(observers, call, undefined);
      return response;
    } catch (failure) {
      throw endFailed(observers, call, (req.stream && givenUp(req.signal, failure)) || failure);
    }
  };
}

/** A call, as far as its end is concerned. */
interface ObservedCall {
  /** Undefined for a request that named none. */
  readonly method: DescMethod | undefined;
  /** `none` for a request that is of no protocol of calls. */
  readonly protocol: WireProtocol | "none";
  readonly requestId: string;
  /** `performance.now()` when it began. */
  readonly started: number;
  /** What it is counted in, where that is known by now. */
  readonly series?: CallSeries;
  /** Whether the request itself was at fault, whatever the code; default: the code tells. */
  readonly isRefused?: boolean;
}

/** Counts and logs every request that is refused before it is a call, and says what its caller is told. */
export function observeRefusals(observers: Observers): OnRefused {
  return (refusal, request) => {
    const { method, protocolName, header, arrived } = request;
    const call = {
      method,
      protocol: (protocolName ?? "none") as WireProtocol | "none",
      requestId: requestIdOf(header),
      started: startOf(arrived),
      // What authorization or an endpoint could not foresee is a fault of ours.
      isRefused: refusal.kind !== "unauthorized" && refusal.kind !== "endpoint",
    };
    seriesOf(observers, call).start();
    return endFailed(observers, call, refusedError(refusal, request));
  };
}

/** When a request came, as `performance.now()`. @param arrived in Unix time, in milliseconds; undefined: now */
function startOf(arrived: number | undefined): number {
  return performance.now() - (arrived === undefined ? 0 : Math.max(0, Date.now() - arrived));
}

/** The codes whose series are there from the start, so that their first increase is seen as one. */
const CODES: readonly string[] = [
  CODE_OK,
  ...[
    Code.Canceled,
    Code.InvalidArgument,
    Code.DeadlineExceeded,
    Code.NotFound,
    Code.ResourceExhausted,
    Code.Aborted,
    Code.Unimplemented,
    Code.Internal,
    Code.Unavailable,
    Code.DataLoss,
    Code.Unauthenticated,
  ].map((code) => Code[code]),
];

/** Makes the series of the calls of methods over protocols, all of them zero. */
export function prepareSeries(
  { calls }: Observers,
  methods: readonly DescMethod[],
  protocols: readonly WireProtocol[],
): void {
  for (const method of methods) for (const protocol of protocols) calls(kindOf(method), protocol, CODES);
}

function endFailed(observers: Observers, call: ObservedCall, failure: unknown): ConnectError {
  const error = toCallError(failure);
  error.metadata.set(REQUEST_ID_HEADER, call.requestId);
  observeEnd(observers, call, error);
  return error;
}

function observeEnd(observers: Observers, call: ObservedCall, error: ConnectError | undefined): void {
  const { method, requestId, started } = call;
  const seconds = (performance.now() - started) / 1000;
  const series = call.series ?? seriesOf(observers, call);
  series.end(error ? (Code[error.code] ?? "Unknown") : CODE_OK, seconds);
  const { logger } = observers;
  const isFault = error !== undefined && SERVER_FAULTS.has(error.code) && !call.isRefused;
  if (!isFault && !logger.isLevelEnabled("debug")) return;
  const fields = {
    request_id: requestId,
    method: method ? kindOf(method).name : "none",
    protocol: call.protocol,
    code: error ? codeToString(error.code) : "ok",
    seconds,
    ...(error && errorFields(error.cause ?? error)),
  };
  if (isFault) logger.error(fields, "call failed");
  else logger.debug(fields, error ? "call refused" : "call");
}

function seriesOf(observers: Observers, { method, protocol }: Pick<ObservedCall, "method" | "protocol">): CallSeries {
  return observers.calls(method ? kindOf(method) : UNKNOWN, protocol);
}

/** A kind with its name as the log has it, `package.Service/Method`. */
type NamedKind = CallKind & { readonly name: string };

/** Whatever is asked for that is not served: callers must not choose the names of series. */
const UNKNOWN: CallKind = { type: "unary", service: "unknown", method: "unknown" };

const TYPES = {
  unary: "unary",
  client_streaming: "client_stream",
  server_streaming: "server_stream",
  bidi_streaming: "bidi_stream",
} as const;

const kinds = new WeakMap<DescMethod, NamedKind>();

/** What is called, put together once for each. */
function kindOf(method: DescMethod): NamedKind {
  let kind = kinds.get(method);
  if (kind === undefined) {
    const service = method.parent.typeName;
    kind = { type: TYPES[method.methodKind], service, method: method.name, name: `${service}/${method.name}` };
    kinds.set(method, kind);
  }
  return kind;
}

/** The messages of an answer; the call ends with the last of them. */
async function* observeStream<T>(
  observers: Observers,
  call: ObservedCall,
  messages: AsyncIterable<T>,
  signal: AbortSignal,
): AsyncIterable<T> {
  // What is not read to its end was given up by whoever read it.
  let error: ConnectError | undefined = new ConnectError("the caller is gone", Code.Canceled);
  try {
    yield* messages;
    // The request of a stream that is reset may end first, and be said to be closed a turn later.
    await setImmediate();
    // When the service closes, streams are told, and end well.
    error = signal.reason === observers.shutdownSignal?.reason ? undefined : givenUp(signal);
  } catch (failure) {
    error = givenUp(signal, failure) ?? toCallError(failure);
    throw error;
  } finally {
    observeEnd(observers, call, error);
  }
}
