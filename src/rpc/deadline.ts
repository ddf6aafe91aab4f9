import { Code, ConnectError, type Interceptor } from "@connectrpc/connect";

/**
 * Answers as soon as the caller's deadline passes or the caller disconnects, instead of waiting for the handler. The
 * handler still finishes, and its response is dropped.
 */
export function deadlineInterceptor(): Interceptor {
  return (next) => (req) => {
    const hasDeadline = req.header.get("grpc-timeout") !== null || req.header.get("connect-timeout-ms") !== null;
    if (!hasDeadline || req.stream) return next(req);
    const { signal } = req;
    return new Promise((resolve, reject) => {
      const onAbort = () => reject(ConnectError.from(signal.reason, Code.DeadlineExceeded));
      if (signal.aborted) return onAbort();
      signal.addEventListener("abort", onAbort, { once: true });
      next(req)
        .then(resolve, reject)
        .finally(() => signal.removeEventListener("abort", onAbort));
    });
  };
}
