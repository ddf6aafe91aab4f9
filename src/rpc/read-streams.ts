import { Code, ConnectError, type StreamRequest } from "@connectrpc/connect";
import { streamRefusal } from "@user-group-service/transport";
import { CONNECTION_LOST } from "../observability/connection-lost.ts";
import { refusedError } from "./refusals.ts";

/**
 * Why a stream was aborted: its deadline passed, or the client disconnected. Returns undefined when it was not aborted.
 * Failures that follow from an abort are not faults of the server.
 */
export function abortError({ aborted, reason }: AbortSignal, failure?: unknown): ConnectError | undefined {
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
export async function* readMessages(request: StreamRequest, call: { isRefused?: boolean }) {
  try {
    yield* request.message;
  } catch (failure) {
    call.isRefused = true;
    throw readError(failure, request);
  }
}

/** The error for the caller of a stream whose messages cannot be read. */
function readError(failure: unknown, request: StreamRequest): ConnectError {
  if (failure instanceof ConnectError) {
    return refusedError(streamRefusal(failure, request), { method: request.method, protocolName: undefined });
  }
  // An error of the runtime. Runtimes name a lost connection differently, and not all errors have a code.
  return new ConnectError("the client disconnected", Code.Canceled, undefined, undefined, failure);
}
