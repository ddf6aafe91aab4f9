import { Code } from "@connectrpc/connect";
import {
  type Endpoint,
  type HttpRequest,
  type HttpResponse,
  isKnown,
  RefusalError,
  readEndpoint,
} from "@user-group-service/transport";
import { MAX_KEY_REQUESTS } from "../domain/capacity.ts";
import { type EnvironmentName, parseEnvironmentName } from "../domain/environment.ts";
import { callError } from "../rpc/errors.ts";
import { DOCUMENT_MAX_AGE_S } from "../sessions/documents.ts";
import type { LimitedRead } from "../sessions/signing-keys.ts";
import type { ViewerSessions, WellKnown } from "../sessions/viewer-sessions.ts";
import { etagOf } from "./pages/cached-file.ts";

/**
 * Matches the paths of the public documents that verifiers of sessions read, such as
 * `/e/ENV/TAG/.well-known/jwks.json`.
 */
const PATH = /^\/e\/([\w./-]{1,80})\/\.well-known\/(openid-configuration|jwks\.json)$/;

/**
 * Creates a function that returns the endpoint of a path. If the path does not match `PATH`, the function returns
 * undefined. The endpoint needs no token, and pages of any origin can read the response. If the environment has no
 * keys, the response is the same as if the environment did not exist.
 */
export function wellKnownEndpoints(sessions: Pick<ViewerSessions, "published">) {
  const headers = { "access-control-allow-origin": "*" };
  /** The number of requests that wait for the store. These requests do not count towards `MAX_CALLS`. */
  let waiting = 0;

  const limited: LimitedRead = async (read) => {
    if (waiting >= MAX_KEY_REQUESTS)
      throw new RefusalError({ kind: "overloaded", cause: "queue-full", retryAfterSeconds: 1 });
    waiting++;
    return read().finally(() => waiting--);
  };

  const serve = (environment: EnvironmentName, name: WellKnown) => async (request: HttpRequest) => {
    const document = await sessions.published(environment, name, limited);
    if (!document) throw callError(Code.NotFound, NONE, { reason: "KEYS_NOT_FOUND" });
    const body = `${JSON.stringify(document)}\n`;
    const etag = etagOf(body);
    const cached = { ...headers, etag, "cache-control": `public, max-age=${DOCUMENT_MAX_AGE_S}` };
    if (isKnown(etag, request.headers)) return { status: 304, headers: cached, body: "" };
    const type = name === "jwks.json" ? "application/jwk-set+json" : "application/json";
    return { status: 200, headers: { ...cached, "content-type": type }, body } satisfies HttpResponse;
  };

  return (path: string): Endpoint | undefined => {
    const [, names = "", name] = PATH.exec(path) ?? [];
    const environment = parseEnvironmentName(names);
    if (!environment || name === undefined) return undefined;
    return readEndpoint(serve(environment, name as WellKnown));
  };
}

const NONE = "no keys are published here: the environment does not exist, or never had a viewer session";
