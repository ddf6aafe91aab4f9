import { fromJson, type MessageShape } from "@bufbuild/protobuf";
import { ViewerService } from "../../gen/usergroup/v1/viewer_service_pb.ts";
import { type Environment, formatEnvironmentName } from "../domain/environment.ts";
import type { JsonObject } from "../domain/user-group.ts";
import { isUnknownToken } from "../http/error-response.ts";
import { MAX_MESSAGE_BYTES } from "../limits.ts";
import { environmentOf } from "../rpc/context.ts";
import { refusedJson } from "../rpc/refusals.ts";
import { type Endpoint, type HeaderRecord, type HttpResponse, recordOf } from "../transport/index.ts";
import { COMPRESS_MIN_BYTES, parseBody, requireJson } from "./json-body.ts";

const { resolveViewer } = ViewerService.method;

type Viewer = MessageShape<typeof resolveViewer.output>;

const INACTIVE = '{"active":false}';

/**
 * `/api/viewer`: ResolveViewer in the form of token introspection (RFC 7662), for back ends that speak neither gRPC nor
 * Connect. The request is JSON instead of a form. Everything that is wrong with a token looks the same (section 2.2).
 */
export function viewerEndpoint(): Endpoint {
  return {
    protocolName: "rest",
    methods: new Map([
      [
        "POST",
        {
          rpc: resolveViewer,
          maxBytes: MAX_MESSAGE_BYTES,
          compressMinBytes: COMPRESS_MIN_BYTES,
          serve: async ({ headers, body }, invoke) => {
            requireJson(headers);
            const request = requestOf(parseBody(body));
            try {
              const { message, headers, contextValues } = await invoke(request);
              return respond(headers, textOf(message as Viewer, environmentOf(contextValues)));
            } catch (failure) {
              if (!isUnknownToken(failure)) throw failure;
              return respond({ "cache-control": "no-store", ...recordOf(failure.metadata) }, INACTIVE);
            }
          },
        },
      ],
    ]),
  };
}

/** Takes the token alone: fields that RFC 7662 knows beside it, such as `token_type_hint`, change nothing. */
function requestOf({ token }: JsonObject): MessageShape<typeof resolveViewer.input> {
  try {
    return fromJson(resolveViewer.input, token === undefined || token === null ? {} : { token });
  } catch (cause) {
    throw refusedJson(cause, resolveViewer.input);
  }
}

function respond(headers: HeaderRecord, body: string): HttpResponse {
  headers["content-type"] = "application/json";
  return { status: 200, headers, body };
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
