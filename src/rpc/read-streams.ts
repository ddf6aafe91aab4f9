import type { DescMethod } from "@bufbuild/protobuf";
import { Code, ConnectError, type StreamRequest } from "@connectrpc/connect";
import { MAX_MESSAGE_BYTES, MAX_OPEN_MESSAGE_BYTES } from "../limits.ts";
import { CONNECTION_LOST } from "../observability/connection-lost.ts";
import { streamRefusal } from "../transport/index.ts";
import { isOpen } from "./access.ts";
import { refusedError } from "./refusals.ts";

/** Why a stream was given up: its time is over, or its caller is gone. What breaks by that is no fault. */
export function givenUp({ aborted, reason }: AbortSignal, failure?: unknown): ConnectError | undefined {
  const { code } =
    ((failure instanceof ConnectError ? failure.cause : failure) as { code?: unknown } | undefined) ?? {};
  if (!aborted && !CONNECTION_LOST.has(code)) return undefined;
  const isOver = reason instanceof ConnectError && reason.code === Code.DeadlineExceeded;
  return isOver ? reason : new ConnectError("the caller is gone", Code.Canceled);
}

/**
 * The messages of a request. What they fail with is the request's fault, or its connection's, and no one else's.
 *
 * @param call is told when they fail
 */
export async function* readMessages({ message, method, header }: StreamRequest, call: { isRefused?: boolean }) {
  try {
    yield* message;
  } catch (failure) {
    call.isRefused = true;
    throw unreadable(failure, method, header);
  }
}

/** What a caller is told of a stream whose messages cannot be read. */
function unreadable(failure: unknown, method: DescMethod, header: Headers): ConnectError {
  if (failure instanceof ConnectError) {
    const limit = isOpen(method) ? MAX_OPEN_MESSAGE_BYTES : MAX_MESSAGE_BYTES;
    const refusal = streamRefusal(failure, header.get("content-type"), limit);
    return refusedError(refusal, { method, protocolName: undefined });
  }
  // The runtime's own: each has another name for a connection that is lost, and not all have a code.
  return new ConnectError("the caller is gone", Code.Canceled, undefined, undefined, failure);
}
