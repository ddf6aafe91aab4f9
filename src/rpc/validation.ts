import type { Interceptor } from "@connectrpc/connect";
import { compilePlainTextCheck, oncePerType } from "./plain-text-rules.ts";

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

const isPlain = oncePerType(compilePlainTextCheck);

let allRules: Promise<Interceptor> | undefined;

/** Loads protovalidate, which takes a quarter of the start. So a worker loads it once it listens. */
export function loadAllRules(): Promise<Interceptor> {
  allRules ??= import("./all-rules.ts").then(({ allRulesInterceptor }) => allRulesInterceptor());
  return allRules;
}
