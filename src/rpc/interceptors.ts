import { setImmediate } from "node:timers/promises";
import type { DescMessage, Message } from "@bufbuild/protobuf";
import {
  Code,
  ConnectError,
  type Interceptor,
  type StreamRequest,
  type StreamResponse,
  type UnaryRequest,
  type UnaryResponse,
} from "@connectrpc/connect";
import { streamRefusal } from "@user-group-service/transport";
import type { ApiTokens } from "../auth/api-tokens.ts";
import { DomainError, EnvironmentNotFound } from "../domain/errors.ts";
import { type CallContext, callOf, REQUEST_ID_HEADER } from "./call-context.ts";
import { apiTokenIn, type IsCredential } from "./credentials.ts";
import { toCallError } from "./errors.ts";
import { Observation, type Observers } from "./observation.ts";
import { compilePlainTextCheck, memoize } from "./plain-text-rules.ts";
import { refusedError } from "./refusal-errors.ts";

interface InterceptorDeps extends Observers {
  /** Aborts when the service begins to shut down. */
  readonly shutdownSignal: AbortSignal;
  /**
   * Called before a NotFound error is returned. If the store may have lost data, the promise rejects, and the call
   * fails with the error of the promise.
   */
  readonly confirmMissing: () => Promise<void>;
  readonly authenticator: Pick<ApiTokens, "authenticate" | "forget">;
  readonly isCredential: IsCredential;
}

type Run = (req: UnaryRequest | StreamRequest) => Promise<UnaryResponse | StreamResponse>;

/**
 * Creates the interceptor of all calls. The interceptor observes and validates each call, and ends the call at its
 * deadline. The interceptor also adds the request id to the response, and converts failures to errors for the caller.
 */
export function callInterceptor(deps: InterceptorDeps): Interceptor {
  const { authenticator, shutdownSignal, isCredential } = deps;
  // Compiles the check of a message type at the first request of this type, because compiling all checks would delay
  // the start.
  const plainCheckOf = memoize((input: DescMessage) => compilePlainTextCheck(input, isCredential));
  let allRules: ReturnType<typeof import("./all-rules.ts")["allRules"]> | undefined;
  const loadRules = async () => (allRules ??= (await loadAllRules()).allRules(isCredential));
  return (next) => async (req) => {
    const call = callOf(req.contextValues);
    const observation = new Observation(deps, call);
    if (!req.stream) call.input = req.message;
    let response: UnaryResponse | StreamResponse;
    try {
      // The transport has already authorized the call. Check the authorization again before validation, because
      // unauthenticated callers must not receive validation errors.
      if (!call.isAuthorized) throw new ConnectError("the call was not authorized", Code.Internal);
      if (req.stream) {
        const rules = await loadRules();
        response = await next({ ...req, message: validated(readMessages(req, observation), req.method.input, rules) });
      } else {
        // If the plain-text check accepts the message, protovalidate would accept it too, so skip protovalidate.
        const { input } = req.method;
        if (!plainCheckOf(input)(req.message)) (await loadRules())(input, req.message);
        const answer = () => (call.hasDeadline ? beforeDeadline(next, req) : next(req));
        const { trace } = call;
        const attempt = trace ? () => trace.run(answer) : answer;
        try {
          response = await attempt();
        } catch (failure) {
          if (!(failure instanceof EnvironmentNotFound && (await lookUpAgain(authenticator, call)))) throw failure;
          response = await attempt();
        }
      }
    } catch (caught) {
      const isMissing = caught instanceof DomainError && caught.kind === "NotFound";
      const failure = isMissing ? await deps.confirmMissing().then(() => caught, identity) : caught;
      throw observation.fail((req.stream && abortError(req.signal, failure)) || failure);
    }
    response.header.set(REQUEST_ID_HEADER, call.id);
    // Most responses contain a token, so no response should be cached.
    response.header.set("cache-control", "no-store");
    if (response.stream)
      return { ...response, message: passOn(response.message, { observation, req, shutdownSignal }) };
    observation.end(undefined, response.message);
    return response;
  };
}

const identity = (error: unknown) => error;

/** Authenticates again. Returns true if a new environment has replaced the deleted environment of the API token. */
async function lookUpAgain(authenticator: InterceptorDeps["authenticator"], call: CallContext): Promise<boolean> {
  const { environment } = call.caller;
  if (!environment) return false;
  authenticator.forget(environment.number);
  const principal = await authenticator.authenticate(apiTokenIn(call.received.headers) ?? "");
  if (!principal?.environment || principal.environment.number === environment.number) return false;
  call.bearer = principal;
  return true;
}

/**
 * Runs a unary call. Rejects at the deadline, or when the caller disconnects. The handler continues after a rejection.
 */
function beforeDeadline(run: Run, req: UnaryRequest): ReturnType<Run> {
  const { signal } = req;
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(ConnectError.from(signal.reason, Code.DeadlineExceeded));
    if (signal.aborted) return onAbort();
    signal.addEventListener("abort", onAbort, { once: true });
    run(req)
      .then(resolve, reject)
      .finally(() => signal.removeEventListener("abort", onAbort));
  });
}

/**
 * Loads protovalidate. Call this function after the port is open, because loading takes a quarter of the start time.
 */
export function loadAllRules(): Promise<typeof import("./all-rules.ts")> {
  return import("./all-rules.ts");
}

/** Yields the messages of a response stream. Ends the observation after the last message. */
async function* passOn<T>(
  messages: AsyncIterable<T>,
  {
    observation,
    req,
    shutdownSignal,
  }: { observation: Observation; req: Pick<StreamRequest, "signal">; shutdownSignal: AbortSignal },
): AsyncIterable<T> {
  const { signal } = req;
  // If the reader stops before the last message, the client has disconnected, and `error` keeps this initial value.
  let error: ConnectError | undefined = new ConnectError("the client disconnected", Code.Canceled);
  try {
    yield* messages;
    // If a client resets a stream, the request may end one iteration of the event loop before the signal aborts. So
    // wait for one iteration.
    await setImmediate();
    // A shutdown ends a stream without an error.
    error = signal.reason === shutdownSignal.reason ? undefined : abortError(signal);
  } catch (failure) {
    error = abortError(signal, failure) ?? toCallError(failure);
    throw error;
  } finally {
    observation.end(error);
  }
}

/**
 * Returns the error for a stream that was aborted or has lost its connection. Returns undefined for other streams. A
 * failure after the abort is not a fault of the server, so the error does not contain the failure.
 */
function abortError({ aborted, reason }: AbortSignal, failure?: unknown): ConnectError | undefined {
  const { code } =
    ((failure instanceof ConnectError ? failure.cause : failure) as { code?: unknown } | undefined) ?? {};
  if (!aborted && !CONNECTION_LOST.has(code)) return undefined;
  const isOver = reason instanceof ConnectError && reason.code === Code.DeadlineExceeded;
  return isOver ? reason : new ConnectError("the client disconnected", Code.Canceled);
}

async function* readMessages(request: StreamRequest, observation: Observation) {
  try {
    yield* request.message;
  } catch (failure) {
    observation.isRequestFault = true;
    if (failure instanceof ConnectError)
      throw refusedError(streamRefusal(failure, request), { method: request.method, protocolName: undefined });
    // Any other error comes from the runtime, and means that the connection is lost. Some of these errors have no code.
    throw new ConnectError("the client disconnected", Code.Canceled, undefined, undefined, failure);
  }
}

async function* validated<M extends Message>(
  messages: AsyncIterable<M>,
  desc: DescMessage,
  rules: (desc: DescMessage, message: M) => void,
) {
  for await (const message of messages) {
    rules(desc, message);
    yield message;
  }
}

/**
 * Error codes of Node and Deno for a lost connection. The stream may fail with such an error before the signal aborts.
 */
const CONNECTION_LOST: ReadonlySet<unknown> = new Set(
  (
    "ABORT_ERR ECONNRESET EPIPE ERR_HTTP2_INVALID_STREAM ERR_HTTP2_STREAM_CANCEL ERR_HTTP2_STREAM_ERROR " +
    "ERR_STREAM_DESTROYED ERR_STREAM_PREMATURE_CLOSE"
  ).split(" "),
);
