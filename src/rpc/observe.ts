import { randomUUID } from "node:crypto";
import { setImmediate } from "node:timers/promises";
import type { DescMethod, Message } from "@bufbuild/protobuf";
import { Code, ConnectError, type Interceptor, type StreamRequest } from "@connectrpc/connect";
import { codeToString } from "@connectrpc/connect/protocol-connect";
import { type OnRefused, type RefusedRequest, SharedError, streamRefusal } from "@user-group-service/transport";
import type { EnvironmentName as EnvironmentNameMessage } from "../../gen/usergroup/admin/v1/environment_pb.ts";
import { type EnvironmentName, formatEnvironmentName, parseEnvironmentName } from "../domain/environment.ts";
import { MAX_ID_LENGTH } from "../domain/user-group.ts";
import { type CallSeries, CODE_OK } from "../observability/call-metrics.ts";
import { errorFields, type Logger } from "../observability/log.ts";
import type { Metrics } from "../observability/metrics.ts";
import { Call, callOf, type WireProtocol } from "./context.ts";
import { toCallError } from "./errors.ts";
import { tagFromMessage } from "./messages.ts";
import { OVERLOADED, refusedError } from "./refusals.ts";

/** The header with the id of a request. A caller may send one; the response repeats it. */
export const REQUEST_ID_HEADER = "x-request-id";

/** What observes calls. */
export interface Observers {
  readonly logger: Logger;
  readonly metrics: Pick<Metrics, "calls">;
  /** Aborts when the service begins to shut down. */
  readonly shutdownSignal: AbortSignal;
}

const REQUEST_ID = /^[\x21-\x7e]{1,128}$/;

/** Codes that mean a fault of the server. */
const SERVER_FAULTS: ReadonlySet<Code> = new Set([Code.Unknown, Code.Internal, Code.DataLoss, Code.Unavailable]);

/**
 * Counts, times and logs every call, adds the request id to every response, and converts every failure to an error that
 * the caller may see.
 */
export function observeInterceptor(observers: Observers): Interceptor {
  return (next) => (req) => {
    const call = new ObservedCall(observers, callOf(req.contextValues), req);
    if (!req.stream) call.input = req.message;
    const succeed: (response: Awaited<ReturnType<typeof next>>) => typeof response = (response) => {
      response.header.set(REQUEST_ID_HEADER, call.id);
      // Most responses contain a token, and none should be cached.
      response.header.set("cache-control", "no-store");
      if (response.stream) return { ...response, message: call.passOn(response.message, req.signal) };
      call.end(undefined, response.message);
      return response;
    };
    const fail = (failure: unknown): never => {
      throw call.fail((req.stream && abortError(req.signal, failure)) || failure);
    };
    try {
      return next(req.stream ? { ...req, message: readMessages(req, call) } : req).then(succeed, fail);
    } catch (failure) {
      return fail(failure);
    }
  };
}

/** Counts and logs every request that is refused before it becomes a call, and makes the error for its caller. */
export function observeRefusals(observers: Observers): OnRefused {
  const shared = new SharedError(OVERLOADED);
  return (refusal, request) => {
    const { protocolName, contextValues } = request;
    const known = contextValues && callOf(contextValues);
    const call = new ObservedCall(
      observers,
      known ?? new Call((protocolName ?? "none") as WireProtocol | "none"),
      request,
    );
    if (request.arrived !== undefined) call.started -= Math.max(0, Date.now() - request.arrived);
    // An unexpected error in authorization or an endpoint is a fault of the server.
    call.isRefused = refusal.kind !== "unauthorized" && refusal.kind !== "endpoint";
    const error = refusedError(refusal, request);
    if (error !== OVERLOADED) return call.fail(error);
    call.end(error);
    return { shared, headers: { [REQUEST_ID_HEADER]: call.id } };
  };
}

/** What is recorded of a call. */
class ObservedCall {
  /** The id that the caller sent, or a new one if it sent none or an invalid one. */
  readonly id: string;
  /** By `performance.now()`. */
  started = performance.now();
  /** The message of a unary request; undefined for a stream, and for a request that did not become a call. */
  input: Message | undefined;
  /** Whether the request is at fault, whatever the code. */
  isRefused = false;
  readonly #observers: Observers;
  readonly #call: Call;
  readonly #method: DescMethod | undefined;
  readonly #series: CallSeries;

  /** Counts the start of the call. @param request its method is undefined when it names none */
  constructor(observers: Observers, call: Call, { method, header }: Pick<RefusedRequest, "method" | "header">) {
    const given = header.get(REQUEST_ID_HEADER);
    this.id = given !== null && REQUEST_ID.test(given) ? given : randomUUID();
    call.id = this.id;
    call.method = method?.name ?? "";
    this.#observers = observers;
    this.#call = call;
    this.#method = method;
    this.#series = observers.metrics.calls(method, call.protocol);
    this.#series.start();
  }

  /** Ends the call with a failure. @returns the error for the caller */
  fail(failure: unknown): ConnectError {
    const error = toCallError(failure);
    error.metadata.set(REQUEST_ID_HEADER, this.id);
    this.end(error);
    return error;
  }

  /** Counts and logs the end of the call. @param output the message of a unary response */
  end(error: ConnectError | undefined, output?: Message): void {
    const seconds = (performance.now() - this.started) / 1000;
    this.#series.end(error ? (Code[error.code] ?? "Unknown") : CODE_OK, seconds);
    const isFault = error !== undefined && SERVER_FAULTS.has(error.code) && !this.isRefused;
    const { logger } = this.#observers;
    // Most calls are not logged, so their fields are put together only when they are.
    if (!isFault && !logger.isLevelEnabled("debug")) return;
    const call = this.#call;
    const method = this.#method;
    const peer = error && call.peer;
    const fields = {
      request_id: this.id,
      method: method ? `${method.parent.typeName}/${method.name}` : "none",
      protocol: call.protocol,
      code: error ? codeToString(error.code) : "ok",
      seconds,
      ...callerFields(call, this.input),
      ...groupFields(call, this.input, output),
      ...(error && { ...(peer && { peer }), ...errorFields(error.cause ?? error) }),
    };
    if (!isFault) logger.debug(fields, error ? "call refused" : "call");
    // An outage of Redis or its replicas mostly passes by itself; any other fault needs somebody to look at it.
    else if (error.code === Code.Unavailable) logger.warn(fields, "call failed");
    else logger.error(fields, "call failed");
  }

  /** Passes on the messages of a response. The call ends with the last of them. */
  async *passOn<T>(messages: AsyncIterable<T>, signal: AbortSignal): AsyncIterable<T> {
    // If the reader stops early, it was because the client disconnected.
    let error: ConnectError | undefined = new ConnectError("the client disconnected", Code.Canceled);
    try {
      yield* messages;
      // When a client resets a stream, the request may end one turn before the signal aborts.
      await setImmediate();
      // A stream that ends because the service shuts down ends successfully.
      error = signal.reason === this.#observers.shutdownSignal.reason ? undefined : abortError(signal);
    } catch (failure) {
      error = abortError(signal, failure) ?? toCallError(failure);
      throw error;
    } finally {
      this.end(error);
    }
  }
}

/**
 * Why a stream was aborted: its deadline passed, or the client disconnected. Returns undefined when it was not aborted.
 * Failures that follow from an abort are not faults of the server.
 */
function abortError({ aborted, reason }: AbortSignal, failure?: unknown): ConnectError | undefined {
  const { code } =
    ((failure instanceof ConnectError ? failure.cause : failure) as { code?: unknown } | undefined) ?? {};
  if (!aborted && !CONNECTION_LOST.has(code)) return undefined;
  const isOver = reason instanceof ConnectError && reason.code === Code.DeadlineExceeded;
  return isOver ? reason : new ConnectError("the client disconnected", Code.Canceled);
}

/**
 * Reads the messages of a request. A failure to read them is the fault of the request or of its connection.
 *
 * @param call marked as refused when reading fails
 */
async function* readMessages(request: StreamRequest, call: { isRefused?: boolean }) {
  try {
    yield* request.message;
  } catch (failure) {
    call.isRefused = true;
    if (failure instanceof ConnectError)
      throw refusedError(streamRefusal(failure, request), { method: request.method, protocolName: undefined });
    // An error of the runtime. Runtimes name a lost connection differently, and not all errors have a code.
    throw new ConnectError("the client disconnected", Code.Canceled, undefined, undefined, failure);
  }
}

/**
 * Error codes of the runtimes for a client that disconnected in the middle of a stream. Such an error may come before
 * the signal aborts.
 */
const CONNECTION_LOST: ReadonlySet<unknown> = new Set(
  (
    "ABORT_ERR ECONNRESET EPIPE ERR_HTTP2_INVALID_STREAM ERR_HTTP2_STREAM_CANCEL ERR_HTTP2_STREAM_ERROR " +
    "ERR_STREAM_DESTROYED ERR_STREAM_PREMATURE_CLOSE"
  ).split(" "),
);

/**
 * What log lines tell of a caller: nothing when the API token is not known. None of it is secret.
 *
 * @param input the request, which names the environment that root acts on
 */
export function callerFields({ principal, denied }: Call, input: Message | undefined) {
  const caller = principal ?? denied;
  if (!caller) return {};
  const { id, displayName } = caller;
  const environment = caller.environment ?? namedEnvironment(input);
  return {
    ...(environment && { environment: formatEnvironmentName(environment) }),
    api_token_id: id,
    api_token_name: displayName,
  };
}

/** The environment that a request names; undefined when it names none, or by what is no name. */
function namedEnvironment(input: Message | undefined): EnvironmentName | undefined {
  const { environment } = (input ?? {}) as { readonly environment?: EnvironmentNameMessage };
  if (environment === undefined) return undefined;
  // One that is no name was refused, and may be anything.
  return parseEnvironmentName(formatEnvironmentName({ ...environment, tag: tagFromMessage(environment.tag) }));
}

/** Fields that name a group, in whichever message they are. All other fields may hold a token, and are not looked at. */
interface NamesGroup {
  readonly userGroupId?: unknown;
  readonly providedId?: unknown;
  readonly group?: { readonly case?: unknown; readonly value?: unknown };
  readonly userGroup?: { readonly providedId?: unknown };
}

/** Which group a call is about. Only for authorized callers: what a stranger claims is not logged. */
function groupFields({ principal }: Call, input: Message | undefined, output: Message | undefined) {
  if (!principal) return {};
  const asked = input as NamesGroup | undefined;
  const told = output as NamesGroup | undefined;
  const byId = asked?.group?.case === "userGroupId" ? asked.group.value : undefined;
  const id = asked?.userGroupId ?? byId ?? told?.userGroup?.providedId ?? told?.providedId;
  // A longer id was refused, and would only make the log longer.
  return typeof id === "string" && id !== "" && id.length <= MAX_ID_LENGTH ? { user_group_id: id } : {};
}
