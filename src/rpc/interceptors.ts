import { Code, ConnectError, type Interceptor } from "@connectrpc/connect";
import type { Authenticator, Principal } from "../auth/authenticator.ts";
import { CREDENTIAL_HEADERS, tokenFromHeader } from "../auth/credentials.ts";
import { kPrincipal } from "./context.ts";
import { callError } from "./errors.ts";

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

/**
 * Sees to it that who is calling is known. Admission found it out before the body was read; a call that came
 * without is authenticated here, so that no way in is open that somebody forgot.
 *
 * @param isOpen whether a service may be called without an API token
 */
export function authenticationInterceptor(
  authenticator: Authenticator,
  isOpen: (service: string) => boolean,
): Interceptor {
  return (next) => (req) => {
    if (req.contextValues.get(kPrincipal) || isOpen(req.service.typeName)) return next(req);
    const goOn = (principal: Principal) => {
      req.contextValues.set(kPrincipal, principal);
      return next(req);
    };
    const found = authenticate(authenticator, req.header);
    return found instanceof Promise ? found.then(goOn) : goOn(found);
  };
}

/**
 * Who bears the API token of a header.
 *
 * @throws ConnectError Unauthenticated, with what to do about it, and StoreUnavailable
 */
export function authenticate(authenticator: Authenticator, header: Headers): Principal | Promise<Principal> {
  const found = authenticator.authenticate(presentedToken(header));
  return found instanceof Promise ? found.then(known) : known(found);
}

/** @throws ConnectError Unauthenticated */
function known(principal: Principal | undefined): Principal {
  if (!principal) throw unauthenticated("API_TOKEN_UNKNOWN", UNKNOWN_TOKEN);
  return principal;
}

const UNKNOWN_TOKEN = "the API token is unknown or revoked; check that it was copied whole";

function presentedToken(header: Headers): string {
  for (const name of CREDENTIAL_HEADERS) {
    const value = header.get(name);
    if (value === null) continue;
    const token = tokenFromHeader(value);
    if (token === undefined) {
      throw unauthenticated("API_TOKEN_MALFORMED", "the Authorization header must be: Token API_TOKEN");
    }
    return token;
  }
  throw unauthenticated("API_TOKEN_MISSING", "the header is missing: Authorization: Token API_TOKEN");
}

function unauthenticated(reason: string, message: string): ConnectError {
  const error = callError(Code.Unauthenticated, message, { reason });
  error.metadata.set("www-authenticate", 'Token realm="user-group-service"');
  return error;
}
