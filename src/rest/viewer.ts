import { ConnectError } from "@connectrpc/connect";
import { type Endpoint, type HttpRequest, recordOf } from "@user-group-service/transport";
import {
  type ResolveViewerResponse,
  ViewerService,
  type ViewerSession,
} from "../../gen/usergroup/v1/viewer_service_pb.ts";
import { type Environment, formatEnvironmentName } from "../domain/environment.ts";
import {
  TokenNotFound,
  UserGroupSuspended,
  ViewerSessionEnded,
  ViewerSessionExpired,
  ViewerSessionInvalid,
} from "../domain/errors.ts";
import type { JsonObject } from "../domain/user-group.ts";
import { callOf } from "../rpc/call-context.ts";
import {
  invoke,
  isForm,
  jsonMethod,
  jsonResponse,
  oneOf,
  parseFields,
  pick,
  readBody,
  restEndpoint,
  timeText,
} from "./json.ts";

const { resolveViewer, createViewerSession } = ViewerService.method;

/** The errors for which the response is only `active: false`. */
const NOT_ACTIVE = [TokenNotFound, ViewerSessionEnded, ViewerSessionExpired, ViewerSessionInvalid];

/**
 * Creates the endpoint `/api/viewer`. The endpoint serves ResolveViewer as token introspection (RFC 7662). The request
 * is a form or JSON. The response is the same for all invalid tokens (section 2.2 of the RFC). If the group of the
 * token is suspended, the response also contains the reason and the message.
 */
export function viewerEndpoint(): Endpoint {
  const POST = jsonMethod(resolveViewer, async (request, call) => {
    const fields = isForm(request) ? formFields(request) : readBody(request);
    try {
      // Other fields of RFC 7662, such as `token_type_hint`, are ignored.
      const viewer = await invoke(call, resolveViewer, pick(fields, ["token", "audience"]));
      const { environment } = callOf(call.contextValues);
      return jsonResponse(recordOf(call.responseHeader), activeBody(viewer, environment));
    } catch (failure) {
      const body = failure instanceof ConnectError ? inactiveBody(failure.cause) : undefined;
      if (body === undefined) throw failure;
      const { metadata } = failure as ConnectError;
      return jsonResponse({ "cache-control": "no-store", ...recordOf(metadata) }, body);
    }
  });
  return restEndpoint({ POST });
}

/** Returns the response if the error means that the token is not active. Returns undefined for all other errors. */
function inactiveBody(error: unknown): object | undefined {
  // The response contains the message, so that the caller can show the message to the viewer.
  if (error instanceof UserGroupSuspended)
    return { active: false, reason: error.reason, suspension_message: error.suspensionMessage };
  return NOT_ACTIVE.some((each) => error instanceof each) ? { active: false } : undefined;
}

/** Returns the fields of a form. An empty field counts as missing, as in OAuth (RFC 6749, 3.2). */
function formFields({ body }: Pick<HttpRequest, "body">): JsonObject {
  const fields = parseFields(body, "the form");
  return { token: oneOf(fields, "token") || null, audience: oneOf(fields, "audience") || null };
}

const SESSION_FIELDS = createViewerSession.input.fields.map(({ name }) => name);

export function viewerSessionEndpoint(): Endpoint {
  const POST = jsonMethod(createViewerSession, async (request, call) => {
    const fields = pick(readBody(request), SESSION_FIELDS);
    const { session, id, expireTime, refreshTime } = await invoke(call, createViewerSession, fields);
    const times = { expire_time: timeText(expireTime), refresh_time: timeText(refreshTime) };
    return jsonResponse(recordOf(call.responseHeader), { success: 1, session, id, ...times });
  });
  return restEndpoint({ POST });
}

/**
 * Returns the response for a valid token. `active`, `sub`, `exp`, `aud`, `jti` and `iat` are fields of RFC 7662. All
 * other fields are specific to this service. Times are in seconds since 1970, rounded down.
 */
function activeBody(viewer: ResolveViewerResponse, environment: Environment): object {
  const { tokenExpireTime, session } = viewer;
  return {
    active: true,
    sub: viewer.providedId,
    environment: formatEnvironmentName(environment),
    team_id: Number(viewer.teamId),
    name: viewer.name,
    mapping: viewer.mapping,
    properties: viewer.properties ?? null,
    ...(tokenExpireTime !== undefined && { exp: Number(tokenExpireTime.seconds) }),
    ...(session && fieldsOf(session)),
  };
}

function fieldsOf({ id, audience, viewerId, origin, claims, createTime, expireTime }: ViewerSession) {
  return {
    jti: id,
    aud: audience,
    viewer_id: viewerId || null,
    origin: origin || null,
    ext: claims ?? null,
    iat: Number(createTime?.seconds),
    exp: Number(expireTime?.seconds),
  };
}
