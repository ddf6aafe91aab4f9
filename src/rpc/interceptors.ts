import { setImmediate } from "node:timers/promises";
import type { DescMessage } from "@bufbuild/protobuf";
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
import { DomainError, EnvironmentNotFound } from "../domain/errors.ts";
import type { IsCredential } from "./credentials.ts";
import { toCallError } from "./errors.ts";
import { callOf, type ObservedCall, type Observers, REQUEST_ID_HEADER } from "./observed-call.ts";
import { compilePlainTextCheck } from "./plain-text-rules.ts";
import { refusedError } from "./refusal-errors.ts";

/** What every call passes. */
interface InterceptorDeps extends Observers {
  /** Aborts when the service begins to shut down. */
  readonly shutdownSignal: AbortSignal;
  /** Called before a caller learns that something is missing. Rejects when the store may have lost it. */
  readonly confirmMissing: () => Promise<void>;
  readonly isCredential: IsCredential;
}

type Run = (req: UnaryRequest | StreamRequest) => Promise<UnaryResponse | StreamResponse>;

/**
 * Takes every call from its headers and message to its RPC, and back: counts, times and logs it, adds the request id to
 * its response, and converts every failure to an error that the caller may see.
 */
export function callInterceptor(deps: InterceptorDeps): Interceptor {
  const { shutdownSignal, isCredential } = deps;
  /** Compiled at the first request of each type, because all would slow the start. */
  const plainChecks = new Map<DescMessage, ReturnType<typeof compilePlainTextCheck>>();
  const addPlainCheck = (input: DescMessage) => {
    const isPlain = compilePlainTextCheck(input, isCredential);
    plainChecks.set(input, isPlain);
    return isPlain;
  };
  let allRules: Interceptor | undefined;
  const loadRules = async () => (allRules ??= (await loadAllRules()).allRulesInterceptor(isCredential));
  return (next) => async (req) => {
    const call = callOf(req.contextValues);
    call.begin(deps, req);
    if (!req.stream) call.input = req.message;
    let response: UnaryResponse | StreamResponse;
    try {
      // By its headers, before it came here. Callers without a token learn nothing about the rules.
      if (!call.isAuthorized) throw new ConnectError("the call was not authorized", Code.Internal);
      if (req.stream) {
        const rules = await loadRules();
        response = await rules(next)({ ...req, message: readMessages(req, call) });
      } else {
        // Plain messages need no protovalidate.
        const { input } = req.method;
        const isPlain = plainChecks.get(input) ?? addPlainCheck(input);
        const run: Run = isPlain(req.message) ? next : (await loadRules())(next);
        const hasDeadline = req.header.get("grpc-timeout") !== null || req.header.get("connect-timeout-ms") !== null;
        const answer = () => (hasDeadline ? beforeDeadline(run, req) : run(req));
        const { trace } = call;
        const attempt = trace ? () => trace.run(answer) : answer;
        try {
          response = await attempt();
        } catch (failure) {
          if (!(failure instanceof EnvironmentNotFound && (await learnAgain(call)))) throw failure;
          response = await attempt();
        }
      }
    } catch (caught) {
      const isMissing = caught instanceof DomainError && caught.kind === "NotFound";
      const failure = isMissing ? await deps.confirmMissing().then(() => caught, identity) : caught;
      throw call.fail((req.stream && abortError(req.signal, failure)) || failure);
    }
    response.header.set(REQUEST_ID_HEADER, call.id);
    // Most responses contain a token, and none should be cached.
    response.header.set("cache-control", "no-store");
    if (response.stream) return { ...response, message: passOn(response.message, { call, req, shutdownSignal }) };
    call.end(undefined, response.message);
    return response;
  };
}

const identity = (error: unknown) => error;

/**
 * Learns again for which environment a credential of the settings is, after a call has found that the one that it was for is
 * gone. @returns whether it is for another one now
 */
async function learnAgain(call: ObservedCall): Promise<boolean> {
  const { caller } = call;
  const principal = caller.role === "root" ? undefined : await caller.learnAgain?.();
  if (!principal) return false;
  call.principal = principal;
  call.bearer = principal;
  return true;
}

/**
 * Answers as soon as the caller's deadline passes or the caller disconnects, instead of waiting for the handler. The
 * handler still finishes, and its response is dropped.
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

/** Loads protovalidate, which takes a quarter of the start: a worker loads it once it listens. */
export function loadAllRules(): Promise<typeof import("./all-rules.ts")> {
  return import("./all-rules.ts");
}

/** Passes on the messages of a response. The call ends with the last of them. */
async function* passOn<T>(
  messages: AsyncIterable<T>,
  {
    call,
    req,
    shutdownSignal,
  }: { call: ObservedCall; req: Pick<StreamRequest, "signal">; shutdownSignal: AbortSignal },
): AsyncIterable<T> {
  const { signal } = req;
  // If the reader stops early, it was because the client disconnected.
  let error: ConnectError | undefined = new ConnectError("the client disconnected", Code.Canceled);
  try {
    yield* messages;
    // When a client resets a stream, the request may end one turn before the signal aborts.
    await setImmediate();
    // A stream that ends because the service shuts down ends successfully.
    error = signal.reason === shutdownSignal.reason ? undefined : abortError(signal);
  } catch (failure) {
    error = abortError(signal, failure) ?? toCallError(failure);
    throw error;
  } finally {
    call.end(error);
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

/** Reads the messages of a request. A failure to read them is the fault of the request or of its connection. */
async function* readMessages(request: StreamRequest, call: ObservedCall) {
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
