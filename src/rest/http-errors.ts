import { Code, type ConnectError } from "@connectrpc/connect";
import { callError } from "../rpc/errors.ts";

interface HttpError {
  readonly code: Code;
  readonly reason: string;
  readonly message: string;
}

const MALFORMED: HttpError = {
  code: Code.InvalidArgument,
  reason: "MALFORMED_HTTP",
  message:
    "this is no well-formed HTTP: percent-encode what is not ASCII in the target; over HTTP/1.1 send a request line, then fields such as Host: example.com, then the body",
};

const BY_STATUS: { readonly [status: number]: HttpError } = {
  400: MALFORMED,
  408: {
    code: Code.DeadlineExceeded,
    reason: "REQUEST_TIMEOUT",
    message: "the request took too long to arrive: its header may take 15 seconds, and all of it 30",
  },
  417: {
    code: Code.InvalidArgument,
    reason: "EXPECTATION_FAILED",
    message: "the header Expect may say 100-continue and nothing else",
  },
  431: {
    code: Code.ResourceExhausted,
    reason: "HEADER_TOO_LARGE",
    message: "the request line and the header fields are larger than 32 KiB; send less, or the fields in a body",
  },
  429: {
    code: Code.ResourceExhausted,
    reason: "TOO_MANY_STREAMS",
    message: "as many streams are open as this server keeps; try again later",
  },
  503: {
    code: Code.ResourceExhausted,
    reason: "OVERLOADED",
    message: "too many requests are waiting for their bodies; try again later",
  },
};

/** What a caller is told of a request that is refused before anything serves it. */
export function httpError(status: number): ConnectError {
  const { code, message, reason } = BY_STATUS[status] ?? MALFORMED;
  const error = callError(code, message, { reason });
  if (code === Code.ResourceExhausted && status !== 431) error.metadata.set("retry-after", "1");
  return error;
}
