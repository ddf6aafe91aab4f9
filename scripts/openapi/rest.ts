import type { DescField, Registry } from "@bufbuild/protobuf";
import { exampleOf } from "./examples.ts";
import { type Components, type Paths, whoMayCall } from "./operations.ts";
import { isRead } from "./reasons.ts";
import type { JsonSchema } from "./rules.ts";
import { choice, refTo } from "./schemas.ts";

type FieldSchema = (message: string, field: string) => JsonSchema;

function fieldSchemas({ schemas }: Pick<Components, "schemas">, registry: Registry): FieldSchema {
  return (message, name) => {
    const field = registry.getMessage(message)?.fields.find((each: DescField) => each.name === name);
    if (!field) throw new Error(`scripts/openapi/rest.ts describes ${message}.${name}, which does not exist`);
    return schemas.field(field);
  };
}

const GET = "usergroup.v1.GetUserGroupRequest";
const UPDATE = "usergroup.v1.UpdateUserGroupRequest";
const ROTATE = "usergroup.v1.RotateUserGroupTokenRequest";
const RESOLVE = "usergroup.v1.ResolveViewerRequest";
const SESSION = "usergroup.v1.CreateViewerSessionRequest";

const SUCCESS = { type: "integer", format: "int64", const: 1 };

const TAGS = ["Customer", "Testing", null];

/** Returns the fields of a request that are values of the group. Omits `update_mask` and `etag`. */
function groupFieldsOf(registry: Registry, message: string): readonly DescField[] {
  const fields = registry.getMessage(message)?.fields ?? [];
  return fields.filter(({ name }) => name !== "update_mask" && name !== "etag");
}

interface RestSchemas {
  readonly [name: string]: JsonSchema;
}

export function restSchemas(components: Components, registry: Registry): RestSchemas {
  const field = fieldSchemas(components, registry);
  const orNull = (schema: JsonSchema, words: string) => ({
    description: words,
    anyOf: [schema, { type: "null" }],
  });
  const group = {
    team_id: {
      type: "integer",
      format: "int64",
      description: "Internal id, below 2^53. Callers do not need to store the internal id.",
    },
    token: {
      type: "string",
      description: "The user group token. Keep this credential in your back end. Empty while the group is suspended.",
    },
    name: { type: "string" },
    provided_id: {
      type: "string",
      description: "The id of the group, chosen by the caller. The id is unique within the environment.",
    },
  };
  const common = Object.keys(group);
  const properties = {
    type: ["object", "null"],
    description: "Free-form JSON object. Null if the group has no properties.",
  };
  const tag = {
    type: ["string", "null"],
    enum: TAGS,
    description: "The tag of the environment. Null if the environment has no tag.",
  };
  const state = {
    expire_time: {
      type: "string",
      format: "date-time",
      description: "The time from which the group is suspended. Absent if the group does not expire.",
    },
    suspension: {
      type: "object",
      description: "Present while the group is suspended.",
      required: ["reason", "message", "suspend_time"],
      properties: {
        reason: { type: "string", description: "Reason for operators. `EXPIRED` if `expire_time` has passed." },
        message: { type: "string", description: "The message that the page shows to viewers." },
        suspend_time: { type: "string", format: "date-time" },
        until: {
          type: "string",
          format: "date-time",
          description: "The time at which the suspension ends automatically.",
        },
      },
    },
  };
  const answer = (
    fields: { readonly [name: string]: JsonSchema },
    others: { readonly [name: string]: JsonSchema } = {},
  ) => ({
    type: "object",
    required: ["success", ...Object.keys(others), "user_group"],
    properties: {
      success: SUCCESS,
      ...others,
      user_group: {
        type: "object",
        required: [...common, ...Object.keys(fields)],
        properties: { ...group, ...fields, ...state },
      },
    },
  });
  return {
    RestUpdate: {
      type: "object",
      description: "New values of a group. Missing fields stay unchanged, and null clears a field.",
      required: ["user_group_id"],
      properties: Object.fromEntries(
        groupFieldsOf(registry, UPDATE).map(({ name }) => [
          name,
          name === "user_group_id" ? field(UPDATE, name) : orNull(field(UPDATE, name), "Null clears the field."),
        ]),
      ),
    },
    RestRotation: {
      type: "object",
      description: "The group, selected by its current token or by its id. Use the id if you have lost the token.",
      properties: {
        current_token: field(ROTATE, "current_token"),
        user_group_id: field(ROTATE, "user_group_id"),
        previous_token_ttl: field(ROTATE, "previous_token_ttl"),
      },
      ...choice(["current_token", "user_group_id"], true),
    },
    RestIntrospection: {
      type: "object",
      description: "The service ignores other fields of RFC 7662, such as `token_type_hint`.",
      required: ["token"],
      // The page `/docs/` fills its form with these examples.
      properties: {
        token: { ...field(RESOLVE, "token"), examples: ["USER_GROUP_TOKEN"] },
        audience: { ...field(RESOLVE, "audience"), examples: [""] },
      },
    },
    RestSessionRequest: {
      type: "object",
      description: "The group, selected by its token or by its id, and the claims of the session.",
      required: ["audience"],
      properties: Object.fromEntries(
        registry.getMessage(SESSION)?.fields.map(({ name }) => [name, field(SESSION, name)]) ?? [],
      ),
      ...choice(["token", "user_group_id"], true),
    },
    RestSession: {
      type: "object",
      required: ["success", "session", "id", "expire_time", "refresh_time"],
      properties: {
        success: SUCCESS,
        session: {
          type: "string",
          description: "The session, a signed JWT. The service does not store the session and cannot show it again.",
        },
        id: { type: "string", description: "The claim `jti` of the session." },
        expire_time: { type: "string", format: "date-time" },
        refresh_time: {
          type: "string",
          format: "date-time",
          description: "The time at which to create the next session.",
        },
      },
    },
    RestGotGroup: answer(
      { properties },
      { new_user_group: { type: "boolean", description: "True if this call created the group." } },
    ),
    RestUpdatedGroup: answer({ properties, api_environment_tag: tag }),
    RestRotatedGroup: answer({ api_environment_tag: tag }),
    RestViewer: {
      type: "object",
      description:
        "The group of the token. If `active` is true, `sub`, `environment`, `team_id`, `name`, `mapping` and `properties` are present. If `active` is false, further fields are present only if the group is suspended.",
      required: ["active"],
      properties: {
        active: { type: "boolean" },
        reason: { type: "string", description: "`USER_GROUP_SUSPENDED` if the group is suspended." },
        suspension_message: {
          type: "string",
          description: "If the group is suspended: the message that the page shows to viewers.",
        },
        sub: { type: "string", description: "Id of the group, chosen by the caller." },
        environment: { type: "string", description: "The environment: `NAME/TAG`, or `NAME` without a tag." },
        team_id: group.team_id,
        name: { type: "string" },
        mapping: { type: "object", additionalProperties: { type: "string" } },
        properties,
        exp: {
          type: "integer",
          format: "int64",
          description: "Expiry time of a replaced token or of the viewer session, in seconds since 1970.",
        },
        jti: {
          type: "string",
          description:
            "Id of the viewer session. `jti`, `aud`, `viewer_id`, `origin`, `ext` and `iat` are present only for a viewer session.",
        },
        aud: { type: "string", description: "Audience of the session." },
        viewer_id: { type: ["string", "null"], description: "Id of the viewer within the group." },
        origin: { type: ["string", "null"], description: "Origin of the page." },
        ext: { type: ["object", "null"], description: "Additional claims." },
        iat: { type: "integer", format: "int64", description: "Time of creation, in seconds since 1970." },
      },
    },
  };
}

/** Describes the REST paths and the other HTTP paths of docs/api.md. @param schemas result of `restSchemas` */
export function restPaths(components: Components, registry: Registry, schemas: RestSchemas): Paths {
  const field = fieldSchemas(components, registry);
  const ok = (description: string, schema: string, headers?: JsonSchema) => ({
    200: { description, ...(headers && { headers }), content: { "application/json": { schema: refTo(schema) } } },
  });
  /** @param rpc the RPC that the path calls */
  const operation = (operationId: string, rpc: string, role: string, fields: JsonSchema) => {
    const [service = "", name = ""] = rpc.split("/");
    const method = registry.getService(service)?.methods.find((each) => each.name === name);
    if (!method) throw new Error(`scripts/openapi/rest.ts names ${rpc}, which does not exist`);
    const errors = components.errors.of({ method, access: role, isRest: true });
    return {
      operationId,
      tags: ["REST"],
      ...fields,
      description: `${fields["description"]}\n\n${whoMayCall(role)}`,
      "x-access": role,
      ...(isRead(method) && { "x-read-only": true }),
      responses: { ...(fields["responses"] as JsonSchema), ...errors },
    };
  };
  const query = (name: string, schema: JsonSchema) => ({ name, in: "query", schema });
  const header = (name: string, description: string, schema: JsonSchema) => ({
    name,
    in: "header",
    description,
    schema,
  });
  const body = (schema: string) => ({ schema: refTo(schema), example: exampleOf(schemas[schema] as JsonSchema) });
  const json = (schema: string) => ({ content: { "application/json": body(schema) }, required: true });
  const etag = { ETag: { description: "The group's etag, for `If-Match`.", schema: { type: "string" } } };
  const notFound = components.errors.rest("KEYS_NOT_FOUND");
  // Client generators do not support `content` of query parameters.
  const jsonText = (name: string) => ({
    ...query(name, { type: "string", "x-json": field(GET, name) }),
    description: "A JSON object.",
  });
  return {
    "/api/user": {
      get: operation("getUser", "usergroup.v1.UserGroupService/GetUserGroup", "read", {
        summary: "Get User",
        description:
          "Returns a user group. If the group does not exist, creates the group, which requires the role `manage`. The call does not change an existing group, even if the request contains `name` or `properties`. In this case, the response contains the values of the request instead of the stored values.\n\nThe fields can also be in a JSON body, which OpenAPI cannot describe for GET. If the query and the body contain the same field, the values must be equal.",
        parameters: groupFieldsOf(registry, GET).map(({ name, fieldKind }) => ({
          ...(fieldKind === "scalar" ? query(name, field(GET, name)) : jsonText(name)),
          ...(name === "user_group_id" && { required: true }),
        })),
        responses: ok("The group, with its token.", "RestGotGroup", etag),
      }),
      put: operation("updateUser", "usergroup.v1.UserGroupService/UpdateUserGroup", "manage", {
        summary: "Update User",
        description: "Changes an existing user group. Never creates a group.",
        parameters: [
          header("If-Match", "Changes the group only if its etag equals this value: one entity tag, or `*`.", {
            type: "string",
            minLength: 1,
          }),
        ],
        requestBody: json("RestUpdate"),
        responses: ok("The group after the change.", "RestUpdatedGroup", etag),
      }),
      post: operation("rotateUser", "usergroup.v1.UserGroupService/RotateUserGroupToken", "manage", {
        summary: "Rotate the token of a user group (Create User)",
        description:
          "Replaces the token of a user group. The old token is revoked immediately, or after a grace period. Never creates a user group.",
        parameters: [
          header(
            "Idempotency-Key",
            "Makes a retry safe. If a request with the same key succeeded in the last 24 hours, the retry does not rotate the token again, and returns the token that the first request created.",
            {
              ...field(ROTATE, "request_id"),
              minLength: 1,
            },
          ),
        ],
        requestBody: json("RestRotation"),
        responses: ok("The group, with its new token.", "RestRotatedGroup", etag),
      }),
    },
    "/api/viewer": {
      post: operation("introspectToken", "usergroup.v1.ViewerService/ResolveViewer", "resolve", {
        summary: "Resolve Viewer",
        description: "Returns the user group of a token or viewer session, as token introspection (RFC 7662).",
        requestBody: {
          required: true,
          content: {
            "application/json": body("RestIntrospection"),
            "application/x-www-form-urlencoded": body("RestIntrospection"),
          },
        },
        responses: ok("The group of the token, or `active: false`.", "RestViewer"),
      }),
    },
    "/api/viewer/session": {
      post: operation("createViewerSession", "usergroup.v1.ViewerService/CreateViewerSession", "resolve", {
        summary: "Create Viewer Session",
        description:
          "Creates a viewer session of a user group. The session is a signed JWT for use in a page, in place of the token of the group. A request with the id of the group requires the role `read`.",
        requestBody: json("RestSessionRequest"),
        responses: ok("The session.", "RestSession"),
      }),
    },
    "/e/{environment}/{tag}/.well-known/jwks.json": published("publicKeys", "application/jwk-set+json", {
      notFound,
      summary: "Public Keys",
      description: "The public keys that verify the viewer sessions of an environment (RFC 7517).",
    }),
    "/e/{environment}/{tag}/.well-known/openid-configuration": published("issuer", "application/json", {
      notFound,
      summary: "Issuer",
      description: "The issuer of an environment, and the URL of the public keys.",
    }),
    "/healthz": probe("isAlive", "The process is running."),
    "/readyz": probe("isReady", "Redis answers reads, and the process is not shutting down.", {
      failure: "Redis failed the requested check, or the process is shutting down.",
      parameters: [
        {
          name: "changes",
          in: "query",
          allowEmptyValue: true,
          description:
            "If this parameter is present, with any value, the endpoint reports whether Redis accepts changes. Without the parameter, the endpoint reports whether Redis answers reads.",
          schema: { type: "string" },
        },
      ],
    }),
    "/metrics": probe("metrics", "Metrics for Prometheus.", {
      failure: "The metrics are incomplete, because a worker did not answer.",
    }),
  };
}

function published(
  operationId: string,
  contentType: string,
  { notFound, ...words }: JsonSchema & { readonly notFound: JsonSchema },
): JsonSchema {
  const parameters = ["environment", "tag"].map((name) => ({
    name,
    in: "path",
    required: true,
    description:
      name === "tag"
        ? "Tag of the environment. For an environment without a tag, omit this part of the path."
        : "Name of the environment.",
    schema: { type: "string" },
  }));
  return {
    get: {
      operationId,
      tags: ["REST"],
      ...words,
      security: [],
      "x-access": "open",
      "x-read-only": true,
      parameters,
      responses: {
        200: {
          description: "The document. Caches may store the document for the time in `Cache-Control`.",
          content: { [contentType]: { schema: { type: "object" } } },
        },
        404: notFound,
      },
    },
  };
}

/** Describes a text endpoint for operators. @param options `failure` describes the response 503, if there is one */
function probe(
  operationId: string,
  summary: string,
  { failure, parameters = [] }: { failure?: string; parameters?: readonly JsonSchema[] } = {},
): JsonSchema {
  const content = { "text/plain": { schema: { type: "string" } } };
  return {
    get: {
      operationId,
      tags: ["Operation"],
      summary,
      security: [],
      "x-access": "open",
      "x-read-only": true,
      ...(parameters.length > 0 && { parameters }),
      responses: {
        200: { description: summary, content },
        404: { description: "Only `METRICS_PORT` serves this path." },
        ...(failure !== undefined && { 503: { description: failure, content } }),
      },
    },
  };
}
