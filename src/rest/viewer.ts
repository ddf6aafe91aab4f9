import type { MessageShape } from "@bufbuild/protobuf";
import { type Endpoint, type HttpRequest, recordOf } from "@user-group-service/transport";
import { ViewerService } from "../../gen/usergroup/v1/viewer_service_pb.ts";
import { type Environment, formatEnvironmentName } from "../domain/environment.ts";
import type { JsonObject } from "../domain/user-group.ts";
import { callOf } from "../rpc/call.ts";
import {
  isForm,
  isTokenNotFound,
  jsonMethod,
  jsonResponse,
  messageOf,
  oneOf,
  parseFields,
  pick,
  readBody,
} from "./json.ts";

const { resolveViewer } = ViewerService.method;

type Viewer = MessageShape<typeof resolveViewer.output>;

const INACTIVE = '{"active":false}';

/**
 * `/api/viewer`: ResolveViewer in the form of token introspection (RFC 7662), for back ends that speak neither gRPC nor
 * Connect. The request is a form, or JSON. Everything that is wrong with a token looks the same (section 2.2 of it).
 */
export function viewerEndpoint(): Endpoint {
  return {
    protocolName: "rest",
    methods: new Map([
      [
        "POST",
        jsonMethod(resolveViewer, async (request, invoke) => {
          const fields = isForm(request) ? formFields(request) : readBody(request);
          // Other fields of RFC 7662, such as `token_type_hint`, are ignored.
          const message = messageOf(resolveViewer.input, pick(fields, ["token"]));
          try {
            const { message: viewer, headers, contextValues } = await invoke(message);
            return jsonResponse(headers, textOf(viewer as Viewer, callOf(contextValues).environment));
          } catch (failure) {
            if (!isTokenNotFound(failure)) throw failure;
            return jsonResponse({ "cache-control": "no-store", ...recordOf(failure.metadata) }, INACTIVE);
          }
        }),
      ],
    ]),
  };
}

/** A field without a value counts as missing, as in all of OAuth (RFC 6749, 3.2). */
function formFields({ body }: Pick<HttpRequest, "body">): JsonObject {
  return { token: oneOf(parseFields(body, "the form"), "token") || null };
}

/** `sub` and `exp` are the names of RFC 7662; it leaves the others to the service. */
function textOf(viewer: Viewer, environment: Environment): string {
  const { tokenExpireTime } = viewer;
  return JSON.stringify({
    active: true,
    sub: viewer.providedId,
    environment: formatEnvironmentName(environment),
    team_id: Number(viewer.teamId),
    name: viewer.name,
    mapping: viewer.mapping,
    properties: viewer.properties ?? null,
    // In whole seconds since 1970; a token is not said to last longer than it does.
    ...(tokenExpireTime !== undefined && { exp: Number(tokenExpireTime.seconds) }),
  });
}
