import { Code, ConnectError, type Interceptor } from "@connectrpc/connect";
import { compilePlainTextCheck, memoize } from "./plain-text-rules.ts";

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

/**
 * Refuses requests that break a rule of the proto files: protovalidate's rules, and this service's `json` rules. Plain
 * messages need no protovalidate.
 */
export function validationInterceptor(): Interceptor {
  return (next) => (request) => {
    if (!request.stream && isPlain(request.method.input)(request.message)) return next(request);
    return loadAllRules().then((allRules) => allRules(next)(request));
  };
}

const isPlain = memoize(compilePlainTextCheck);

let allRules: Promise<Interceptor> | undefined;

/** Loads protovalidate, which takes a quarter of the start. So a worker loads it once it listens. */
export function loadAllRules(): Promise<Interceptor> {
  allRules ??= import("./all-rules.ts").then(({ allRulesInterceptor }) => allRulesInterceptor());
  return allRules;
}
