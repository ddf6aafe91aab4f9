import { Code } from "@connectrpc/connect";
import { DOCUMENT_MAX_AGE_S } from "@user-group-service/sessions";
import {
  type Endpoint,
  type HttpRequest,
  type HttpResponse,
  isKnown,
  readEndpoint,
} from "@user-group-service/transport";
import { type EnvironmentName, parseEnvironmentName } from "../domain/environment.ts";
import type { StrangerLimit } from "../rpc/access.ts";
import { callError } from "../rpc/errors.ts";
import type { ViewerSessions, WellKnown } from "../sessions/viewer-sessions.ts";

/** What anyone may ask for, to verify sessions of an environment: `/e/ENV/TAG/.well-known/jwks.json` and the like. */
const PATH = /^\/e\/([\w./-]{1,80})\/\.well-known\/(openid-configuration|jwks\.json)$/;

/** What the endpoints of published keys need. */
interface WellKnownDeps {
  readonly sessions: Pick<ViewerSessions, "published">;
  /** Limits how often strangers have the store look for keys that do not exist. */
  readonly strangers: StrangerLimit;
}

/**
 * Finds the endpoint of a path at which the keys of an environment are published; undefined for any other path. It is open:
 * pages of every origin may read it. It makes no difference between an environment without keys and none.
 */
export function wellKnownEndpoints({ sessions, strangers }: WellKnownDeps) {
  const headers = { "access-control-allow-origin": "*" };

  const documentsOf = async (environment: EnvironmentName, request: HttpRequest) => {
    let isRead = false;
    const documents = await sessions.published(environment, () => {
      isRead = true;
      strangers.requireFew(request);
    });
    if (!documents && isRead) strangers.count(request);
    return documents;
  };

  const serve = (environment: EnvironmentName, name: WellKnown) => async (request: HttpRequest) => {
    const document = (await documentsOf(environment, request))?.[name];
    if (!document) throw callError(Code.NotFound, NONE, { reason: "KEYS_NOT_FOUND" });
    const cached = { ...headers, etag: document.etag, "cache-control": `public, max-age=${DOCUMENT_MAX_AGE_S}` };
    if (isKnown(document.etag, request.headers)) return { status: 304, headers: cached, body: "" };
    const type = name === "jwks.json" ? "application/jwk-set+json" : "application/json";
    return { status: 200, headers: { ...cached, "content-type": type }, body: document.text } satisfies HttpResponse;
  };

  return (path: string): Endpoint | undefined => {
    const [, names = "", name] = PATH.exec(path) ?? [];
    const environment = parseEnvironmentName(names);
    if (!environment || name === undefined) return undefined;
    return readEndpoint(serve(environment, name as WellKnown));
  };
}

const NONE = "no keys are published here: there is no such environment, or no viewer session was made in it yet";
