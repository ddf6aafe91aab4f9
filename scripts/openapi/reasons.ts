import type { DescMethod } from "@bufbuild/protobuf";

/** The properties of an operation that determine the errors of the operation. */
export interface Calling {
  /** The RPC of the operation. If the operation is a REST path, this is the RPC that the path calls. */
  readonly method: DescMethod;
  readonly access: string;
  readonly isRest: boolean;
}

/** The methods that change nothing. GetUserGroup is omitted, because it can create a group. */
const READS = /^(?:Get(?!UserGroup$)|List|Lookup|ResolveViewer$|Check$)/;

export function isRead({ name }: DescMethod): boolean {
  return READS.test(name);
}

type Rule = (calling: Calling) => boolean;

const always: Rule = () => true;
const never: Rule = () => false;
const withToken: Rule = ({ access }) => access !== "open";
const has =
  (field: string): Rule =>
  ({ method }) =>
    method.input.fields.some(({ name }) => name === field);
const only =
  (...names: readonly string[]): Rule =>
  ({ method: { name } }) =>
    names.includes(name);
/**
 * Matches the same operations as `only`, but does not match ResolveViewer over REST, because ResolveViewer over REST
 * returns `active: false` instead of an error.
 */
const onlyRpc =
  (...names: readonly string[]): Rule =>
  (calling) =>
    only(...names)(calling) && !(calling.isRest && calling.method.name === "ResolveViewer");

const SESSION_READERS = ["ResolveViewer", "LookupUserGroupToken"];

/** The operations that can return each reason. The generator fails if a reason is missing in this table. */
const RULES: { readonly [reason: string]: Rule } = {
  // Credentials.
  API_TOKEN_MISSING: withToken,
  API_TOKEN_MALFORMED: withToken,
  API_TOKEN_UNKNOWN: withToken,
  ROLE_TOO_LOW: ({ access }) => access !== "open" && access !== "any",
  OTHER_ENVIRONMENT: (calling) => calling.access === "admin" && has("environment")(calling),
  ENVIRONMENT_TOKEN_REQUIRED: ({ access }) => ["resolve", "read", "manage"].includes(access),
  RATE_LIMITED: withToken,
  TOO_MANY_FAILURES: withToken,
  // Requests.
  VALIDATION_FAILED: always,
  MALFORMED_REQUEST: always,
  INVALID_REQUEST: always,
  MALFORMED_HTTP: always,
  UNSUPPORTED_MEDIA_TYPE: always,
  EXPECTATION_FAILED: always,
  METHOD_NOT_ALLOWED: always,
  UNIMPLEMENTED: always,
  MESSAGE_TOO_LARGE: always,
  HEADER_TOO_LARGE: always,
  INVALID_UPDATE_MASK: (calling) => !calling.isRest && has("update_mask")(calling),
  AUDIT_EVENTS_EXPIRED: only("ListAuditEvents"),
  // The document has no streaming methods.
  EVENT_CURSOR_EXPIRED: never,
  TOO_MANY_WATCHERS: never,
  INVALID_PAGE_TOKEN: has("page_token"),
  REQUEST_ID_REUSED: has("request_id"),
  ETAG_MISMATCH: has("etag"),
  // The whole service.
  OVERLOADED: always,
  REQUEST_TIMEOUT: always,
  DEADLINE_EXCEEDED: always,
  CANCELED: always,
  TOO_MANY_STREAMS: always,
  STORE_UNAVAILABLE: always,
  UNAVAILABLE: always,
  INTERNAL: always,
  RECORD_UNREADABLE: withToken,
  TOO_FEW_REPLICAS: ({ method }) => !isRead(method),
  // User groups and their tokens.
  USER_GROUP_NOT_FOUND: only(
    "GetUserGroup",
    "UpdateUserGroup",
    "RotateUserGroupToken",
    "CreateViewerSession",
    "LookupUserGroup",
    "DeleteUserGroup",
    "SuspendUserGroup",
    "ResumeUserGroup",
    "RevokeUserGroupTokens",
    "RevokeViewerSessions",
  ),
  // Over REST, GetUserGroup fails for a suspended group.
  USER_GROUP_SUSPENDED: (calling) =>
    onlyRpc("ResolveViewer", "CreateViewerSession")(calling) || (calling.isRest && only("GetUserGroup")(calling)),
  USER_GROUP_EXPIRED: only("ResumeUserGroup"),
  TOKEN_NOT_FOUND: onlyRpc(
    "RotateUserGroupToken",
    "ResolveViewer",
    "CreateViewerSession",
    "DeleteUserGroup",
    "LookupUserGroupToken",
  ),
  TOKEN_REPLACED: only("RotateUserGroupToken"),
  ENVIRONMENT_FULL: only("GetUserGroup"),
  // In an import, these reasons concern one group, not the whole call.
  USER_GROUP_EXISTS: never,
  TOKEN_TAKEN: never,
  TOKEN_NOT_IMPORTABLE: never,
  // Viewer sessions and their keys.
  VIEWER_SESSION_EXPIRED: onlyRpc(...SESSION_READERS),
  VIEWER_SESSION_ENDED: onlyRpc(...SESSION_READERS),
  VIEWER_SESSION_INVALID: onlyRpc(...SESSION_READERS),
  VIEWER_SESSION_TOO_LARGE: only("CreateViewerSession"),
  TOO_MANY_ENDED_VIEWERS: only("RevokeViewerSessions"),
  PUBLIC_URL_MISSING: only("CreateViewerSession", ...SESSION_READERS),
  SIGNING_KEYS_CHANGED: only("CreateViewerSession", "RotateSigningKey"),
  TOKEN_KEY_IN_USE: only("RetireTokenKey"),
  DATA_NOT_ACCEPTABLE: only("AcceptStoreData"),
  // API tokens and environments.
  API_TOKEN_NOT_FOUND: only("LookupApiToken", "UpdateApiToken", "RotateApiToken", "RevokeApiToken"),
  API_TOKEN_CHANGED: only("CreateApiToken", "RotateApiToken"),
  API_TOKEN_OUTLIVES_CALLER: only("RotateApiToken"),
  TOO_MANY_API_TOKENS: only("CreateApiToken", "RotateApiToken"),
  WEBHOOK_NOT_FOUND: has("webhook_id"),
  WEBHOOK_URL_REFUSED: only("CreateWebhook", "UpdateWebhook"),
  EVENT_TYPE_UNKNOWN: only("CreateWebhook", "UpdateWebhook"),
  TOO_MANY_WEBHOOKS: only("CreateWebhook"),
  WEBHOOK_TEST_LIMITED: only("TestWebhook"),
  ENVIRONMENT_NOT_FOUND: has("environment"),
  ENVIRONMENT_EXISTS: only("CreateEnvironment"),
  ENVIRONMENT_BEING_DELETED: only("CreateEnvironment"),
  ENVIRONMENT_NOT_EMPTY: only("DeleteEnvironment"),
  // Other paths, and streams.
  SERVICE_NOT_FOUND: ({ method }) => method.parent.typeName === "grpc.health.v1.Health" && method.name === "Check",
  KEYS_NOT_FOUND: never,
  PATH_NOT_FOUND: never,
  TOO_MANY_QUESTIONS: never,
};

export function isCommon(reason: string): boolean {
  return RULES[reason] === always || RULES[reason] === withToken;
}

/** @throws Error if the reason has no rule */
export function hasReason(reason: string, calling: Calling): boolean {
  const rule = RULES[reason];
  if (!rule) throw new Error(`scripts/openapi/reasons.ts has no rule for the reason ${reason}: add one`);
  return rule(calling);
}
