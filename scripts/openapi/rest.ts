import type { DescField, Registry } from "@bufbuild/protobuf";
import { exampleOf } from "./examples.ts";
import { type Components, type Paths, whoMayCall } from "./operations.ts";
import { isRead } from "./reasons.ts";
import type { JsonSchema } from "./rules.ts";
import { choice, refTo } from "./schemas.ts";

/** The schema of a field of a proto message, with its rules. */
type FieldSchema = (message: string, field: string) => JsonSchema;

function fieldSchemas({ schemas }: Pick<Components, "schemas">, registry: Registry): FieldSchema {
  return (message, name) => {
    const field = registry.getMessage(message)?.fields.find((each: DescField) => each.name === name);
    if (!field) throw new Error(`scripts/openapi/rest.ts describes ${message}.${name}, which is not there any more`);
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

/** The id of a group and the fields that callers set, in the message of a request. */
function groupFieldsOf(registry: Registry, message: string): readonly DescField[] {
  const fields = registry.getMessage(message)?.fields ?? [];
  return fields.filter(({ name }) => name !== "update_mask" && name !== "etag");
}

/** The components that the paths below need. */
export function restSchemas(components: Components, registry: Registry): { readonly [name: string]: JsonSchema } {
  const field = fieldSchemas(components, registry);
  const orNull = (schema: JsonSchema, words: string) => ({
    description: words,
    anyOf: [schema, { type: "null" }],
  });
  const group = {
    team_id: { type: "integer", format: "int64", description: "Internal id, below 2^53. Callers need not store it." },
    token: { type: "string", description: "The user group token: a credential, to be kept by the caller's back end." },
    name: { type: "string" },
    provided_id: { type: "string", description: "The id that the caller chose, unique within the environment." },
  };
  const common = Object.keys(group);
  const properties = { type: ["object", "null"], description: "Free-form; null when the group has none." };
  const tag = {
    type: ["string", "null"],
    enum: TAGS,
    description: "The tag of the group's environment; null when it has none.",
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
        properties: { ...group, ...fields },
      },
    },
  });
  return {
    RestUpdate: {
      type: "object",
      description: "What a group is to have. Fields that are left out stay; those that are null are cleared.",
      required: ["user_group_id"],
      properties: Object.fromEntries(
        groupFieldsOf(registry, UPDATE).map(({ name }) => [
          name,
          name === "user_group_id" ? field(UPDATE, name) : orNull(field(UPDATE, name), "Null clears it."),
        ]),
      ),
    },
    RestRotation: {
      type: "object",
      description: "Which group: by the token it has now, or by its id, so that a lost token does not block recovery.",
      properties: {
        current_token: field(ROTATE, "current_token"),
        user_group_id: field(ROTATE, "user_group_id"),
        previous_token_ttl: field(ROTATE, "previous_token_ttl"),
      },
      ...choice(["current_token", "user_group_id"], true),
    },
    RestIntrospection: {
      type: "object",
      description: "Other fields of RFC 7662, such as `token_type_hint`, are ignored.",
      required: ["token"],
      // The page in the browser fills a form with these.
      properties: {
        token: { ...field(RESOLVE, "token"), examples: ["USER_GROUP_TOKEN"] },
        audience: { ...field(RESOLVE, "audience"), examples: [""] },
      },
    },
    RestSessionRequest: {
      type: "object",
      description: "Which group, by its token or by its id, and what the session is to say.",
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
        session: { type: "string", description: "The session itself, a signed JWT. It cannot be shown again." },
        id: { type: "string", description: "Its claim `jti`." },
        expire_time: { type: "string", format: "date-time" },
        refresh_time: { type: "string", format: "date-time", description: "When to make the next one." },
      },
    },
    RestGotGroup: answer(
      { properties },
      { new_user_group: { type: "boolean", description: "Whether this call created the group." } },
    ),
    RestUpdatedGroup: answer({ properties, api_environment_tag: tag }),
    RestRotatedGroup: answer({ api_environment_tag: tag }),
    RestViewer: {
      type: "object",
      description:
        "Whom the token stands for. If `active` is false, it is the only field, whatever is wrong with the token. If it is true, the fields up to `properties` are present.",
      required: ["active"],
      properties: {
        active: { type: "boolean" },
        sub: { type: "string", description: "The id that the caller chose." },
        environment: { type: "string", description: "`NAME/TAG`, or `NAME`." },
        team_id: group.team_id,
        name: { type: "string" },
        mapping: { type: "object", additionalProperties: { type: "string" } },
        properties,
        exp: {
          type: "integer",
          format: "int64",
          description: "When a rotated token or the viewer session expires, in seconds since 1970.",
        },
        jti: { type: "string", description: "Of a viewer session, as the following fields: its id." },
        aud: { type: "string", description: "Its audience." },
        viewer_id: { type: ["string", "null"], description: "The person within the group." },
        origin: { type: ["string", "null"], description: "The origin of its page." },
        ext: { type: ["object", "null"], description: "The claims that its maker added." },
        iat: { type: "integer", format: "int64", description: "When it was made, in seconds since 1970." },
      },
    },
  };
}

/** The paths beside the RPCs: docs/api.md says what each is. */
export function restPaths(components: Components, registry: Registry): Paths {
  const field = fieldSchemas(components, registry);
  const schemas = restSchemas(components, registry);
  const ok = (description: string, schema: string, headers?: JsonSchema) => ({
    200: { description, ...(headers && { headers }), content: { "application/json": { schema: refTo(schema) } } },
  });
  /** @param rpc the method that the path calls */
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
  // Generators of clients understand no `content` of a parameter in the query.
  const jsonText = (name: string) => ({
    ...query(name, { type: "string", "x-json": field(GET, name) }),
    description: "A JSON object.",
  });
  return {
    "/api/user": {
      get: operation("getUser", "usergroup.v1.UserGroupService/GetUserGroup", "read", {
        summary: "Get User",
        description:
          "Gets a user group or, with the role `manage`, creates it where there is none. An existing group is returned as it is stored, but for `name` and `properties`, which are those of the request where it has them.\n\nThe same fields may be sent as a JSON body, which OpenAPI has no words for with GET; a field that is in both must have the same value.",
        parameters: groupFieldsOf(registry, GET).map(({ name, fieldKind }) => ({
          ...(fieldKind === "scalar" ? query(name, field(GET, name)) : jsonText(name)),
          ...(name === "user_group_id" && { required: true }),
        })),
        responses: ok("The group, with its token.", "RestGotGroup", etag),
      }),
      put: operation("updateUser", "usergroup.v1.UserGroupService/UpdateUserGroup", "manage", {
        summary: "Update User",
        description: "Changes an existing user group. It never creates one.",
        parameters: [
          header("If-Match", "The group is changed only if one of these is its etag: 10 entity tags at most, or `*`.", {
            type: "string",
            minLength: 1,
          }),
        ],
        requestBody: json("RestUpdate"),
        responses: ok("The group as it is now.", "RestUpdatedGroup", etag),
      }),
      post: operation("rotateUser", "usergroup.v1.UserGroupService/RotateUserGroupToken", "manage", {
        summary: "Rotate the token of a user group (Create User)",
        description:
          "Gives a user group a new token. The old token is revoked, at once or after a grace period. It creates no user group.",
        parameters: [
          header(
            "Idempotency-Key",
            "A retry with the same key within 24 hours rotates nothing: it gets the group with the token that the first one made.",
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
        description: "The user group that a token stands for, as RFC 7662 has it.",
        requestBody: {
          required: true,
          content: {
            "application/json": body("RestIntrospection"),
            "application/x-www-form-urlencoded": body("RestIntrospection"),
          },
        },
        responses: ok("Whom it stands for, or that it is not active.", "RestViewer"),
      }),
    },
    "/api/viewer/session": {
      post: operation("createViewerSession", "usergroup.v1.ViewerService/CreateViewerSession", "resolve", {
        summary: "Create Viewer Session",
        description:
          "Makes a viewer session of a user group: a JWT that a page may hold instead of the group's token. By the group's id it needs the role `read`.",
        requestBody: json("RestSessionRequest"),
        responses: ok("The session.", "RestSession"),
      }),
    },
    "/e/{environment}/{tag}/.well-known/jwks.json": published("publicKeys", "application/jwk-set+json", {
      notFound,
      summary: "Public Keys",
      description: "The keys by which the viewer sessions of an environment are verified (RFC 7517).",
    }),
    "/e/{environment}/{tag}/.well-known/openid-configuration": published("issuer", "application/json", {
      notFound,
      summary: "Issuer",
      description: "Where the keys of an environment are.",
    }),
    "/healthz": probe("isAlive", "The process is up."),
    "/readyz": probe("isReady", "Redis answers reads, and the process is not shutting down.", {
      mayFail: true,
      parameters: [
        {
          name: "changes",
          in: "query",
          allowEmptyValue: true,
          description: "Asks whether Redis accepts changes instead. Its value is ignored.",
          schema: { type: "string" },
        },
      ],
    }),
    "/metrics": probe("metrics", "Metrics for Prometheus.", { mayFail: true }),
  };
}

/** What anyone may read of an environment, to verify its viewer sessions. */
function published(
  operationId: string,
  contentType: string,
  { notFound, ...words }: JsonSchema & { readonly notFound: JsonSchema },
): JsonSchema {
  const parameters = ["environment", "tag"].map((name) => ({
    name,
    in: "path",
    required: true,
    description: name === "tag" ? "The path of an environment without a tag has no such part." : "Its name.",
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
          description: "They may be kept for as long as `Cache-Control` says.",
          content: { [contentType]: { schema: { type: "object" } } },
        },
        404: notFound,
      },
    },
  };
}

/** An endpoint for operators, which answers with text. @param options `mayFail`: whether 503 says that it is not so */
function probe(
  operationId: string,
  summary: string,
  { mayFail = false, parameters = [] }: { mayFail?: boolean; parameters?: readonly JsonSchema[] } = {},
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
        404: { description: "It is served on `METRICS_PORT` alone." },
        ...(mayFail && { 503: { description: "It is not so, or cannot be told now.", content } }),
      },
    },
  };
}
