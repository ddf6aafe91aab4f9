import type { DescMethod } from "@bufbuild/protobuf";
import { Code, ConnectError, type StreamRequest } from "@connectrpc/connect";
import { MAX_MESSAGE_BYTES, MAX_OPEN_MESSAGE_BYTES } from "../limits.ts";
import { CONNECTION_LOST } from "../observability/connection-lost.ts";
import { streamRefusal } from "../transport/index.ts";
import { isOpen } from "./access.ts";
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
export async function* readMessages({ message, method, header }: StreamRequest, call: { isRefused?: boolean }) {
  try {
    yield* message;
  } catch (failure) {
    call.isRefused = true;
    throw readError(failure, method, header);
  }
}

/** The error for the caller of a stream whose messages cannot be read. */
function readError(failure: unknown, method: DescMethod, header: Headers): ConnectError {
  if (failure instanceof ConnectError) {
    const limit = isOpen(method) ? MAX_OPEN_MESSAGE_BYTES : MAX_MESSAGE_BYTES;
    const refusal = streamRefusal(failure, header.get("content-type"), limit);
    return refusedError(refusal, { method, protocolName: undefined });
  }
  // An error of the runtime. Runtimes name a lost connection differently, and not all errors have a code.
  return new ConnectError("the client disconnected", Code.Canceled, undefined, undefined, failure);
}
