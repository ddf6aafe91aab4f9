import { Code, ConnectError, type Interceptor } from "@connectrpc/connect";

/**
 * Answers when the caller's deadline has passed or the caller is gone, rather
 * than when the handler is done. What the handler does then is finished, and
 * its answer dropped.
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
