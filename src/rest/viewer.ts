import type { MessageShape } from "@bufbuild/protobuf";
import type { ConnectError } from "@connectrpc/connect";
import { type Endpoint, type HttpRequest, recordOf } from "@user-group-service/transport";
import { ViewerService, type ViewerSession } from "../../gen/usergroup/v1/viewer_service_pb.ts";
import { type Environment, formatEnvironmentName } from "../domain/environment.ts";
import type { UserGroupSuspended } from "../domain/errors.ts";
import type { JsonObject } from "../domain/user-group.ts";
import { callOf } from "../rpc/call-context.ts";
import {
  isForm,
  isNotActive,
  isSuspended,
  jsonMethod,
  jsonResponse,
  messageOf,
  oneOf,
  parseFields,
  pick,
  readBody,
  requireStrict,
  restEndpoint,
  timeText,
} from "./json.ts";

const { resolveViewer, createViewerSession } = ViewerService.method;

type Viewer = MessageShape<typeof resolveViewer.output>;

type CreatedSession = MessageShape<typeof createViewerSession.output>;

const INACTIVE = '{"active":false}';

/**
 * Creates the endpoint `/api/viewer`. The endpoint serves ResolveViewer as token introspection (RFC 7662), for back
 * ends that use neither gRPC nor Connect. The request is a form or JSON. The response is the same for all invalid
 * tokens (section 2.2). If the group of the token is suspended, the response is different.
 */
export function viewerEndpoint(): Endpoint {
  const POST = jsonMethod(resolveViewer, async (request, call) => {
    const fields = isForm(request) ? formFields(request) : readBody(request);
    // Other fields of RFC 7662, such as `token_type_hint`, are ignored.
    const message = messageOf(resolveViewer.input, pick(fields, ["token", "audience"]));
    try {
      const viewer = (await call.invoke(message)) as Viewer;
      const { environment } = callOf(call.contextValues);
      return jsonResponse(recordOf(call.responseHeader), textOf(viewer, environment));
    } catch (failure) {
      const text = isSuspended(failure) ? suspendedText(failure.cause) : isNotActive(failure) ? INACTIVE : undefined;
      if (text === undefined) throw failure;
      const { metadata } = failure as ConnectError;
      return jsonResponse({ "cache-control": "no-store", ...recordOf(metadata) }, text);
    }
  });
  return restEndpoint({ POST });
}

/**
 * Returns the response for a token of a suspended group. The response contains the message, because only the caller can
 * show the message to the viewer.
 */
function suspendedText({ reason, suspensionMessage }: UserGroupSuspended): string {
  return JSON.stringify({ active: false, reason, suspension_message: suspensionMessage });
}

/** Returns the fields of a form. An empty field counts as missing, as in OAuth (RFC 6749, 3.2). */
function formFields({ body }: Pick<HttpRequest, "body">): JsonObject {
  const fields = parseFields(body, "the form");
  return { token: oneOf(fields, "token") || null, audience: oneOf(fields, "audience") || null };
}

const SESSION_FIELDS = createViewerSession.input.fields.map(({ name }) => name);

export function viewerSessionEndpoint(): Endpoint {
  const POST = jsonMethod(createViewerSession, async (request, call) => {
    const body = readBody(request);
    requireStrict(createViewerSession, body);
    const created = await call.invoke(messageOf(createViewerSession.input, pick(body, SESSION_FIELDS)));
    const { session, id, expireTime, refreshTime } = created as CreatedSession;
    const times = { expire_time: timeText(expireTime), refresh_time: timeText(refreshTime) };
    return jsonResponse(recordOf(call.responseHeader), JSON.stringify({ success: 1, session, id, ...times }));
  });
  return restEndpoint({ POST });
}

/**
 * Returns the response for a valid token. `sub`, `exp`, `aud`, `jti` and `iat` are fields of RFC 7662. `aud`, `jti` and
 * `iat` exist only if the token is a viewer session. All other fields except `active` are specific to this service.
 * Times are in seconds since 1970, rounded down.
 */
function textOf(viewer: Viewer, environment: Environment): string {
  const { tokenExpireTime, session } = viewer;
  return JSON.stringify({
    active: true,
    sub: viewer.providedId,
    environment: formatEnvironmentName(environment),
    team_id: Number(viewer.teamId),
    name: viewer.name,
    mapping: viewer.mapping,
    properties: viewer.properties ?? null,
    ...(tokenExpireTime !== undefined && { exp: Number(tokenExpireTime.seconds) }),
    ...(session && fieldsOf(session)),
  });
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
