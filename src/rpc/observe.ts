import { randomUUID } from "node:crypto";
import type { DescMethod } from "@bufbuild/protobuf";
import { Code, type ConnectError, type ContextValues, type Interceptor } from "@connectrpc/connect";
import { codeToString } from "@connectrpc/connect/protocol-connect";
import { errorFields, type Logger } from "../observability/log.ts";
import type { CallObservation } from "../observability/metrics.ts";
import { kProtocol } from "./context.ts";
import { toCallError } from "./errors.ts";

/** Carries the id of a request; a caller may send one, and gets it back. */
export const REQUEST_ID_HEADER = "x-request-id";

/** Who is told of calls. */
export interface Observers {
  readonly logger: Logger;
  readonly observeCall: (observation: CallObservation) => void;
}

const REQUEST_ID = /^[\x21-\x7e]{1,128}$/;

/** Failures that are not the caller's. */
const SERVER_FAULTS: ReadonlySet<Code> = new Set([Code.Unknown, Code.Internal, Code.DataLoss, Code.Unavailable]);

/** The id that the caller sent, or a new one when there is none that can be sent back. */
export function requestIdOf(header: { get(name: string): string | null }): string {
  const given = header.get(REQUEST_ID_HEADER);
  return given !== null && REQUEST_ID.test(given) ? given : newRequestId();
}

/** The bytes of a number in hexadecimal digits. */
const HEX: readonly string[] = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

let idPrefix = "";
let lastId = 0;

/**
 * A new id, in the form of a UUID. It is unique, and no secret: one can be guessed from another, for a random one for
 * every request would cost more than all its other headers.
 */
function newRequestId(): string {
  lastId = (lastId + 1) & 0xffff;
  // Random as a whole every 65,536 requests, then counted on.
  if (lastId === 1) idPrefix = randomUUID().slice(0, -4);
  return idPrefix + HEX[lastId >> 8] + HEX[lastId & 0xff];
}

/**
 * Counts, times and logs every call, gives every answer the id of its request,
 * and makes every failure one that the caller may see.
 */
export function observeInterceptor(observers: Observers): Interceptor {
  return (next) => (req) => {
    const started = performance.now();
    const requestId = requestIdOf(req.header);
    const call = { method: req.method, contextValues: req.contextValues, requestId, started };
    const fail = (failure: unknown): never => {
      throw observeFailure(observers, call, failure);
    };
    const succeed = (response: Awaited<ReturnType<typeof next>>) => {
      try {
        response.header.set(REQUEST_ID_HEADER, requestId);
        // Most answers hold a token, and none is of use later.
        response.header.set("cache-control", "no-store");
      } catch (failure) {
        return fail(failure);
      }
      if (response.stream) return { ...response, message: observeStream(observers, call, response.message) };
      observeEnd(observers, call, undefined);
      return response;
    };
    try {
      return next(req).then(succeed, fail);
    } catch (failure) {
      return Promise.reject(observeFailure(observers, call, failure));
    }
  };
}

/** A call, as far as its end is concerned. */
export interface ObservedCall {
  /** Undefined for a request that named none. */
  readonly method: DescMethod | undefined;
  readonly contextValues: ContextValues | undefined;
  readonly requestId: string;
  /** `performance.now()` when it began. */
  readonly started: number;
  /** Whether the request itself was at fault, whatever the code; default: the code tells. */
  readonly isRefused?: boolean;
}

/** Counts and logs a failed call, and gives its error the id of the request. */
export function observeFailure(observers: Observers, call: ObservedCall, failure: unknown): ConnectError {
  const error = toCallError(failure);
  error.metadata.set(REQUEST_ID_HEADER, call.requestId);
  observeEnd(observers, call, error);
  return error;
}

function observeEnd(observers: Observers, call: ObservedCall, error: ConnectError | undefined): void {
  const { method, requestId, started } = call;
  const seconds = (performance.now() - started) / 1000;
  const observation = {
    method: method ? nameOf(method) : "none",
    protocol: call.contextValues?.get(kProtocol) ?? "rest",
    code: error ? codeToString(error.code) : "ok",
    seconds,
  };
  observers.observeCall(observation);
  if (!error) {
    if (observers.logger.isLevelEnabled("debug")) {
      observers.logger.debug({ request_id: requestId, ...observation }, "call");
    }
    return;
  }
  const fields = { request_id: requestId, ...observation, ...errorFields(error.cause ?? error) };
  if (SERVER_FAULTS.has(error.code) && !call.isRefused) observers.logger.error(fields, "call failed");
  else observers.logger.debug(fields, "call refused");
}

const names = new WeakMap<DescMethod, string>();

/** `package.Service/Method`, put together once for each. */
function nameOf(method: DescMethod): string {
  let name = names.get(method);
  if (name === undefined) {
    name = `${method.parent.typeName}/${method.name}`;
    names.set(method, name);
  }
  return name;
}

async function* observeStream<T>(
  observers: Observers,
  call: ObservedCall,
  messages: AsyncIterable<T>,
): AsyncIterable<T> {
  let error: ConnectError | undefined;
  try {
    yield* messages;
  } catch (failure) {
    error = toCallError(failure);
    throw error;
  } finally {
    observeEnd(observers, call, error);
  }
}
