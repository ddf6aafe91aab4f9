import { isDeepStrictEqual } from "node:util";
import type { DescMethodUnary, Message } from "@bufbuild/protobuf";
import { TimestampSchema } from "@bufbuild/protobuf/wkt";
import type { ConnectError } from "@connectrpc/connect";
import { type Endpoint, type EndpointMethod, headerValue, recordOf } from "@user-group-service/transport";
import type { Suspension, UserGroup } from "../../gen/usergroup/v1/user_group_pb.ts";
import {
  type GetUserGroupRequest,
  type GetUserGroupResponse,
  UserGroupService,
} from "../../gen/usergroup/v1/user_group_service_pb.ts";
import { UserGroupSuspended } from "../domain/errors.ts";
import type { JsonObject } from "../domain/user-group.ts";
import { toCallError } from "../rpc/errors.ts";
import { CHANGEABLE, tagFromMessage } from "../rpc/messages.ts";
import { malformed } from "../rpc/refusal-errors.ts";
import {
  jsonMethod,
  jsonResponse,
  messageOf,
  oneOf,
  parseFields,
  parseObject,
  pick,
  readBody,
  restEndpoint,
  timeText,
} from "./json.ts";

interface VerbRequest {
  readonly body: JsonObject;
  readonly query: URLSearchParams | undefined;
  /** The etag in `If-Match`. Undefined if the header is missing, or if its value is `*`. */
  readonly ifMatch: string | undefined;
  readonly idempotencyKey: string | undefined;
}

/**
 * An HTTP method of `/api/user`. The verb calls an RPC: it converts JSON to the request of the RPC, and the response to
 * JSON.
 */
export interface Verb {
  readonly method: DescMethodUnary;
  /** Creates the request of the RPC. @throws ConnectError InvalidArgument with the invalid field */
  readonly toRequest: (request: VerbRequest) => Message;
  readonly toBody: (group: UserGroup, response: never, request: never) => object;
}

const { getUserGroup, updateUserGroup, rotateUserGroupToken } = UserGroupService.method;

export const MASKABLE = CHANGEABLE.map(({ name }) => name);

const GROUP_FIELDS = ["user_group_id", ...MASKABLE];

/** The fields whose value in a query is JSON. */
const JSON_FIELDS: ReadonlySet<string> = new Set(
  CHANGEABLE.filter(
    ({ fieldKind, message }) => fieldKind !== "scalar" && message?.typeName !== TimestampSchema.typeName,
  ).map(({ name }) => name),
);

export const GET: Verb = {
  method: getUserGroup,
  toRequest: getRequest,
  toBody: (group, { newUserGroup }: GetUserGroupResponse, { name, properties }: GetUserGroupRequest) => ({
    success: 1,
    new_user_group: newUserGroup,
    // By the specification of this path, the response contains the name and the properties of the request. The stored
    // values can differ.
    user_group: {
      team_id: Number(group.teamId),
      token: group.token,
      name: name ?? group.name,
      provided_id: group.providedId,
      properties: properties ?? group.properties ?? null,
      expire_time: timeText(group.expireTime),
    },
  }),
};

export const PUT: Verb = {
  method: updateUserGroup,
  toRequest: ({ body, ifMatch }) => {
    const masked = CHANGEABLE.filter(({ name }) => Object.hasOwn(body, name)).map(({ jsonName }) => jsonName);
    return messageOf(updateUserGroup.input, {
      ...pick(body, GROUP_FIELDS),
      ...(masked.length > 0 && { update_mask: masked.join(",") }),
      ...(ifMatch !== undefined && { etag: ifMatch }),
    });
  },
  toBody: (group) => ({
    success: 1,
    user_group: Object.assign(common(group), { properties: group.properties ?? null }),
  }),
};

export const POST: Verb = {
  method: rotateUserGroupToken,
  toRequest: ({ body, idempotencyKey }) =>
    messageOf(rotateUserGroupToken.input, {
      ...pick(body, ["current_token", "user_group_id", "previous_token_ttl"]),
      ...(idempotencyKey !== undefined && { request_id: idempotencyKey }),
    }),
  toBody: (group) => ({ success: 1, user_group: common(group) }),
};

export const VERBS: ReadonlyMap<string, Verb> = new Map(Object.entries({ GET, PUT, POST }));

/**
 * Creates the request of a GET. A field can be in the body or in the query. If a field is in both, the values must be
 * equal.
 */
function getRequest({ body, query }: VerbRequest): Message {
  const fields = pick(body, GROUP_FIELDS);
  let known = 0;
  for (const name of query ? GROUP_FIELDS : []) {
    const text = query?.has(name) ? oneOf(query, name) : undefined;
    if (text === undefined) continue;
    known++;
    const value = JSON_FIELDS.has(name) ? queryObject(name, text) : text;
    if (fields[name] === undefined) fields[name] = value;
    else if (!isDeepStrictEqual(fields[name], value))
      throw wrongQuery(name, "must be the same in the query and in the body");
  }
  if (query && query.size > known) refuseParts(query);
  return plainGetRequest(fields) ?? messageOf(getUserGroup.input, fields);
}

/** Refuses a query that contains a part of a field, such as `properties[plan]=free`. Ignores unknown names. */
function refuseParts(query: URLSearchParams): void {
  for (const key of query.keys()) {
    const name = GROUP_FIELDS.find((each) => key.startsWith(`${each}[`) || key.startsWith(`${each}.`));
    if (name === undefined) continue;
    const whole = JSON_FIELDS.has(name)
      ? `the JSON of the object, percent-encoded: ${name}=%7B%22key%22%3A%22value%22%7D`
      : `${name}=VALUE`;
    throw wrongQuery(name, `must not be in parts; send ${whole}`);
  }
}

function wrongQuery(field: string, description: string, cause?: unknown): ConnectError {
  return malformed(`${field}: ${description}`, [{ field, description }], cause);
}

/**
 * Creates the request of a GET if its fields are only an id, or only an id and a name. Most requests have no other
 * fields. Without the decoder of protobuf-es, a GET takes 5 % less CPU. If the request has other fields or invalid
 * values, returns undefined, because the decoder must check the request.
 */
function plainGetRequest(fields: JsonObject): GetUserGroupRequest | undefined {
  for (const field in fields) if (field !== "user_group_id" && field !== "name") return undefined;
  const { user_group_id: userGroupId, name } = fields;
  if (typeof userGroupId !== "string" || !userGroupId.isWellFormed()) return undefined;
  const request: GetUserGroupRequest = { $typeName: "usergroup.v1.GetUserGroupRequest", userGroupId, mapping: {} };
  if (name === undefined) return request;
  return typeof name === "string" && name.isWellFormed() ? Object.assign(request, { name }) : undefined;
}

function queryObject(name: string, text: string): JsonObject {
  try {
    return parseObject(text);
  } catch (cause) {
    throw wrongQuery(name, "must be a JSON object with unique keys", cause);
  }
}

/** Returns the fields of a group that most responses contain. JSON omits a field that is undefined. */
export function common({ teamId, token, name, providedId, apiEnvironmentTag, expireTime, suspension }: UserGroup) {
  return {
    // Team ids are below 2^53, so a JSON number is exact.
    team_id: Number(teamId),
    token,
    name,
    provided_id: providedId,
    api_environment_tag: tagFromMessage(apiEnvironmentTag) ?? null,
    expire_time: timeText(expireTime),
    suspension: suspension && suspensionBody(suspension),
  };
}

function suspensionBody({ reason, message, suspendTime, until }: Suspension) {
  return { reason, message, suspend_time: timeText(suspendTime), until: timeText(until) };
}

/** An entity tag (RFC 9110, 8.8.3). */
const ETAG = /^(W\/)?"([\x21\x23-\x7e]*)"$/;

const EMPTY_KEY = "Idempotency-Key is empty: send a value, or remove the header";

export function userEndpoint(): Endpoint {
  return restEndpoint(Object.fromEntries([...VERBS].map(([httpMethod, verb]) => [httpMethod, methodOf(verb)])));
}

export function methodOf(verb: Verb): EndpointMethod {
  return jsonMethod(verb.method, async (request, call) => {
    const { headers, target } = request;
    const body = readBody(request);
    const question = target.indexOf("?");
    const query = question < 0 ? undefined : parseFields(target.slice(question + 1), "the query string");
    const condition = headerValue(headers, "if-match");
    const ifMatch = condition === null ? undefined : etagOf(condition.trim());
    const idempotencyKey = headerValue(headers, "idempotency-key") ?? undefined;
    // Refuse an empty key, because the client would wrongly assume that the key makes retries safe.
    if (idempotencyKey === "") throw malformed(EMPTY_KEY, [{ field: "request_id", description: "must not be empty" }]);
    const message: Message = verb.toRequest({ body, query, ifMatch, idempotencyKey });
    const response = await call.invoke(message);
    const { userGroup } = response as Message & { readonly userGroup?: UserGroup };
    if (!userGroup) throw new TypeError("the response has no user group");
    // The token of a suspended group is empty. If the response were a success, a client could store the empty token. If
    // the response is an error, the client keeps its stored token.
    if (userGroup.suspension && verb.method === getUserGroup)
      throw toCallError(new UserGroupSuspended(userGroup.suspension.message));
    const answer = verb.toBody(userGroup, response as never, message as never);
    const responseHeaders = recordOf(call.responseHeader);
    responseHeaders["etag"] = `"${userGroup.etag}"`;
    return jsonResponse(responseHeaders, answer);
  });
}

/**
 * Parses `If-Match`. Returns undefined if the value is `*`, because any etag matches.
 *
 * @throws ConnectError InvalidArgument if the value is neither one entity tag nor `*`
 */
function etagOf(value: string): string | undefined {
  if (value === "*") return undefined;
  const [isTag, weak, etag] = ETAG.exec(value) ?? [];
  if (isTag === undefined) throw malformed('If-Match must be one entity tag, such as "abc", or *', []);
  // A weak tag never matches (RFC 9110, 13.1.1), and an empty etag would disable the check. So return an etag with the
  // prefix `W/` in both cases. This etag never matches, because no stored etag contains a slash.
  return weak || !etag ? `W/${etag}` : etag;
}
