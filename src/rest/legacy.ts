import { type Endpoint, type EndpointMethod, recordOf } from "@user-group-service/transport";
import { AdminService } from "../../gen/usergroup/admin/v1/admin_service_pb.ts";
import type { UserGroup } from "../../gen/usergroup/v1/user_group_pb.ts";
import type { GetUserGroupResponse } from "../../gen/usergroup/v1/user_group_service_pb.ts";
import { ViewerService } from "../../gen/usergroup/v1/viewer_service_pb.ts";
import type { Json, JsonObject } from "../domain/user-group.ts";
import { invalidField } from "../rpc/errors.ts";
import { invoke, jsonMethod, jsonResponse, pick, readBody, restEndpoint } from "./json.ts";
import { common, GET, MASKABLE, methodOf, POST, PUT, type Verb } from "./user.ts";

/*
 * The paths of the hosted service (https://docs.explo.co/api-reference), for clients that cannot be changed.
 * docs/legacy-paths.md maps each field and lists the missing features.
 */

/**
 * A word for user groups in paths and fields of the hosted service. Older documents of the hosted service use
 * `user_group`, and newer documents use `customer`.
 */
interface Noun {
  readonly noun: string;
  readonly idField: string;
  readonly bodyOf: (group: UserGroup) => object;
}

const NOUNS: readonly Noun[] = [
  {
    noun: "user_group",
    idField: "user_group_id",
    bodyOf: (group) => ({
      ...common(group),
      is_demo_group: false,
      properties: group.properties ?? null,
    }),
  },
  {
    noun: "customer",
    idField: "provided_id",
    bodyOf: ({ token, name, providedId, mapping, properties = {} }) => ({
      token,
      name,
      provided_id: providedId,
      is_demo_group: false,
      emails: [],
      group_tags: [],
      properties,
      computed_properties: properties,
      parent_schema_datasource_mapping: mapping,
      computed_parent_schema_datasource_mapping: mapping,
    }),
  },
];

/** Fields that would change the id or the parent of a group. A request with such a field is refused. */
const REFUSED = {
  new_provided_id:
    "must be absent: the id of a group cannot change; create a group with the new id, and delete this group",
  parent_provided_id:
    "must be absent: groups have no parents; set the properties and the mapping of the parent on the group itself",
} as const;

/** Creates the endpoints for the hosted service's paths. @param sessionMaxMs the maximum lifetime of a session */
export function legacyEndpoints(sessionMaxMs: number): { readonly [path: string]: Endpoint } {
  const endpoints = NOUNS.flatMap(({ noun, idField, bodyOf }) => {
    const served = ({ method, toRequest }: Verb, fieldsOf: (body: JsonObject) => JsonObject) =>
      methodOf({
        method,
        toRequest: (request) => toRequest({ ...request, body: fieldsOf(request.body), query: undefined }),
        toBody: (group, { newUserGroup }: Partial<GetUserGroupResponse>) => ({
          success: 1,
          ...(newUserGroup !== undefined && { [`new_${noun}`]: newUserGroup }),
          [noun]: bodyOf(group),
        }),
      });
    const groupFields = (body: JsonObject) => groupFieldsOf(body, idField);
    return [
      endpointOf(`create_${noun}`, "POST", served(GET, groupFields)),
      endpointOf(`update_${noun}`, "POST", served(PUT, groupFields)),
      endpointOf(`refresh_${noun}_token`, "POST", served(POST, tokenFieldOf)),
      endpointOf(`delete_${noun}`, "DELETE", DELETE),
    ];
  });
  return Object.fromEntries([...endpoints, endpointOf("generate_jwt", "POST", sessionMethod(sessionMaxMs / 1000))]);
}

function endpointOf(name: string, httpMethod: string, method: EndpointMethod): [path: string, endpoint: Endpoint] {
  return [`/api/${name}`, restEndpoint({ [httpMethod]: method })];
}

const { deleteUserGroup } = AdminService.method;
const { createViewerSession } = ViewerService.method;

const DELETE = jsonMethod(deleteUserGroup, async (request, call) => {
  await invoke(call, deleteUserGroup, tokenFieldOf(readBody(request)));
  return jsonResponse(recordOf(call.responseHeader), { success: 1 });
});

/** Fields that control the dashboard. The session contains these fields as claims for the dashboard host. */
const EMBED_FIELDS = ["chart_id", "rb_allowed_features", "disable_editable_section_editing"] as const;

/**
 * Returns the endpoint method that creates viewer sessions for the dashboard `embed_id`. A session lasts at most
 * `maxSeconds`.
 */
function sessionMethod(maxSeconds: number): EndpointMethod {
  return jsonMethod(createViewerSession, async (request, call) => {
    const body = readBody(request);
    const { expiration = `PT${maxSeconds}S`, embed_origin: origin } = pick(body, ["expiration", "embed_origin"]);
    const claims = pick(body, EMBED_FIELDS);
    const { session } = await invoke(call, createViewerSession, {
      user_group_id: requiredText(body, "provided_id"),
      audience: requiredText(body, "embed_id"),
      ttl: `${Math.min(secondsOf(expiration), maxSeconds)}s`,
      // In the hosted service, the origin can be a domain without a scheme. If the value has no scheme, add `https://`.
      ...(origin !== undefined && { origin: isDomain(origin) ? `https://${origin}` : origin }),
      ...(Object.keys(claims).length > 0 && { claims }),
    });
    return jsonResponse(recordOf(call.responseHeader), { success: 1, jwt: session });
  });
}

function isDomain(origin: Json): origin is string {
  return typeof origin === "string" && /^[^:/]+(:\d+)?$/.test(origin);
}

/** An ISO 8601 duration in whole units. */
const DURATION =
  /^P(?=[\dT])(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)W)?(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?$/;
const UNIT_SECONDS = [365 * 86_400, 30 * 86_400, 7 * 86_400, 86_400, 3600, 60, 1];

/** @throws ConnectError InvalidArgument */
function secondsOf(expiration: Json): number {
  const units = typeof expiration === "string" ? DURATION.exec(expiration) : undefined;
  if (!units) throw invalidField("expiration", "must be an ISO 8601 duration in whole units, such as PT1H or PT15M");
  return UNIT_SECONDS.reduce((sum, seconds, i) => sum + seconds * Number(units[i + 1] ?? 0), 0);
}

/**
 * Returns the fields for `/api/user`. A null field counts as missing, so that null does not clear a stored value by
 * mistake.
 */
function groupFieldsOf(body: JsonObject, idField: string): JsonObject {
  for (const [field, description] of Object.entries(REFUSED)) {
    if (Object.keys(pick(body, [field])).length > 0) throw invalidField(field, description);
  }
  return { ...pick(body, MASKABLE), user_group_id: requiredText(body, idField) };
}

function tokenFieldOf(body: JsonObject): JsonObject {
  return { current_token: requiredText(body, "current_token") };
}

/** @throws ConnectError InvalidArgument with the field name of the hosted service */
function requiredText(body: JsonObject, field: string): string {
  const { [field]: value } = pick(body, [field]);
  if (typeof value !== "string" || value === "") throw invalidField(field, "must be a string that is not empty");
  return value;
}
