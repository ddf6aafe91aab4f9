import { isDeepStrictEqual } from "node:util";
import type { DescMethodUnary, Message } from "@bufbuild/protobuf";
import { TimestampSchema } from "@bufbuild/protobuf/wkt";
import type { ConnectError } from "@connectrpc/connect";
import {
  type Endpoint,
  type EndpointCall,
  type EndpointMethod,
  headerValue,
  recordOf,
} from "@user-group-service/transport";
import type { Suspension, UserGroup } from "../../gen/usergroup/v1/user_group_pb.ts";
import {
  type GetUserGroupRequest,
  type GetUserGroupResponse,
  UserGroupService,
} from "../../gen/usergroup/v1/user_group_service_pb.ts";
import type { EnvironmentTag } from "../domain/environment.ts";
import { UserGroupSuspended } from "../domain/errors.ts";
import type { JsonObject } from "../domain/user-group.ts";
import { toCallError } from "../rpc/errors.ts";
import { CHANGEABLE, tagFromMessage } from "../rpc/messages.ts";
import { malformed } from "../rpc/refusal-errors.ts";
import {
  isEtagMismatch,
  jsonMethod,
  jsonResponse,
  messageOf,
  oneOf,
  parseFields,
  parseObject,
  pick,
  readBody,
  requireStrict,
  restEndpoint,
  timeText,
} from "./json.ts";

/** A parsed request to `/api/user`. */
interface VerbRequest {
  readonly body: JsonObject;
  /** Undefined if the request has no query. */
  readonly query: URLSearchParams | undefined;
  /** The etags of `If-Match`. One of them must match. Undefined: any etag matches. */
  readonly ifMatch: readonly string[] | undefined;
  /** The value of `Idempotency-Key`. */
  readonly idempotencyKey: string | undefined;
}

/** One verb of `/api/user`: its RPC, and the mapping between JSON and messages. */
export interface Verb {
  readonly method: DescMethodUnary;
  /** Creates the request of the RPC. @throws ConnectError InvalidArgument with the invalid field */
  readonly toRequest: (request: VerbRequest) => Message;
  /** Creates the response body. */
  readonly toBody: (group: UserGroup, response: never, request: never) => object;
}

const { getUserGroup, updateUserGroup, rotateUserGroupToken } = UserGroupService.method;

/** The fields of a group that callers can set. */
export const MASKABLE = CHANGEABLE.map(({ name }) => name);

const GROUP_FIELDS = ["user_group_id", ...MASKABLE];

/** The fields that are JSON text in a query. */
const JSON_FIELDS: ReadonlySet<string> = new Set(
  CHANGEABLE.filter(
    ({ fieldKind, message }) => fieldKind !== "scalar" && message?.typeName !== TimestampSchema.typeName,
  ).map(({ name }) => name),
);

/** Gets a group, or creates it. */
export const GET: Verb = {
  method: getUserGroup,
  toRequest: getRequest,
  toBody: (group, { newUserGroup }: GetUserGroupResponse, { name, properties }: GetUserGroupRequest) => ({
    success: 1,
    new_user_group: newUserGroup,
    // The response repeats the values of the request, although an existing group keeps its own.
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

/** Changes a group. */
export const PUT: Verb = {
  method: updateUserGroup,
  toRequest: ({ body, ifMatch }) => {
    const masked = CHANGEABLE.filter(({ name }) => Object.hasOwn(body, name)).map(({ jsonName }) => jsonName);
    return messageOf(updateUserGroup.input, {
      ...pick(body, GROUP_FIELDS),
      ...(masked.length > 0 && { update_mask: masked.join(",") }),
      ...(ifMatch !== undefined && { etag: ifMatch[0] }),
    });
  },
  toBody: (group) => {
    const fields = { properties: group.properties ?? null, api_environment_tag: tagOf(group) };
    return { success: 1, user_group: Object.assign(common(group), fields) };
  },
};

/** Rotates the token of a group. */
export const POST: Verb = {
  method: rotateUserGroupToken,
  toRequest: ({ body, idempotencyKey }) =>
    messageOf(rotateUserGroupToken.input, {
      ...pick(body, ["current_token", "user_group_id", "previous_token_ttl"]),
      ...(idempotencyKey !== undefined && { request_id: idempotencyKey }),
    }),
  toBody: (group) => ({
    success: 1,
    user_group: Object.assign(common(group), { api_environment_tag: tagOf(group) }),
  }),
};

/** The verbs of `/api/user`. */
export const VERBS: ReadonlyMap<string, Verb> = new Map(Object.entries({ GET, PUT, POST }));

/** The request of a GET. A field can be in the body, in the query, or in both with the same value. */
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

/** Rejects a part of a field, such as `properties[plan]=free`. Ignores other names in the query. */
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
 * Creates the request of a GET with only an id and perhaps a name, as most are, without the decoder of protobuf-es. It saves
 * 5 % of the CPU of a GET. Undefined for all other requests, which the decoder checks.
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

/** The fields of the response of a change. JSON omits undefined fields. The token of a suspended group is an empty string. */
export function common({ teamId, token, name, providedId, expireTime, suspension }: UserGroup) {
  return {
    // Team ids are below 2^53.
    team_id: Number(teamId),
    token,
    name,
    provided_id: providedId,
    expire_time: timeText(expireTime),
    suspension: suspension && suspensionBody(suspension),
  };
}

function suspensionBody({ reason, message, suspendTime, until }: Suspension) {
  return { reason, message, suspend_time: timeText(suspendTime), until: timeText(until) };
}

/** The tag of the environment of a group; null if it has none. */
export function tagOf({ apiEnvironmentTag }: UserGroup): EnvironmentTag | null {
  return tagFromMessage(apiEnvironmentTag) ?? null;
}

/** One entity tag of a list, with the following comma or the end (RFC 9110, 8.8.3 and 5.6.1). */
const ETAG = /[\t ,]*(W\/)?"([\x21\x23-\x7e]*)"[\t ]*(?:,[\t ,]*|$)/y;

const EMPTY_KEY = "Idempotency-Key is empty: send a value, or remove the header";

/** The maximum number of entity tags in `If-Match`. Each may need a call. */
export const MAX_ETAGS = 10;

/** The REST shim `/api/user`: each verb is one RPC. */
export function userEndpoint(): Endpoint {
  return restEndpoint(Object.fromEntries([...VERBS].map(([httpMethod, verb]) => [httpMethod, methodOf(verb)])));
}

/** Serves a verb at a path. */
export function methodOf(verb: Verb): EndpointMethod {
  return jsonMethod(verb.method, async (request, call) => {
    const { headers, target } = request;
    const body = readBody(request);
    const question = target.indexOf("?");
    const query = question < 0 ? undefined : parseFields(target.slice(question + 1), "the query string");
    const condition = headerValue(headers, "if-match");
    const ifMatch = condition === null ? undefined : etagsOf(condition);
    const idempotencyKey = headerValue(headers, "idempotency-key") ?? undefined;
    // The client would assume that a retry is safe.
    if (idempotencyKey === "") throw malformed(EMPTY_KEY, [{ field: "request_id", description: "must not be empty" }]);
    if (request.body.byteLength > 0) requireStrict(verb.method, body);
    const message: Message = verb.toRequest({ body, query, ifMatch, idempotencyKey });
    const response = await (ifMatch && ifMatch.length > 1
      ? callUntilMatch(call, message, ifMatch.slice(1))
      : call.invoke(message));
    const { userGroup } = response as Message & { readonly userGroup?: UserGroup };
    if (!userGroup) throw new TypeError("the response has no user group");
    // A client could store the missing token. An error leaves the token that it has.
    if (userGroup.suspension && verb.method === getUserGroup)
      throw toCallError(new UserGroupSuspended(userGroup.suspension.message));
    const answer = verb.toBody(userGroup, response as never, message as never);
    const responseHeaders = recordOf(call.responseHeader);
    responseHeaders["etag"] = `"${userGroup.etag}"`;
    return jsonResponse(responseHeaders, JSON.stringify(answer));
  });
}

/**
 * Makes the call, and repeats it with the next entity tag if the etag does not match. A group has one etag, so at most one call
 * changes the group.
 */
async function callUntilMatch(
  call: EndpointCall,
  message: Message,
  [etag, ...others]: readonly string[],
): Promise<Message> {
  try {
    return await call.invoke(message);
  } catch (failure) {
    if (etag === undefined || !isEtagMismatch(failure)) throw failure;
    return callUntilMatch(call, Object.assign(message, { etag }), others);
  }
}

/**
 * Parses `If-Match`; undefined if any etag matches.
 *
 * @throws ConnectError InvalidArgument if it is neither a list of entity tags nor `*`
 */
function etagsOf(value: string): string[] | undefined {
  if (value.trim() === "*") return undefined;
  const etags = new Set<string>();
  for (ETAG.lastIndex = 0; ETAG.lastIndex < value.length; ) {
    const match = ETAG.exec(value);
    if (!match) throw malformed('If-Match must be a list of entity tags, such as "abc", "def", or *', []);
    const [, weak, etag] = match;
    // A weak tag never matches (RFC 9110, 13.1.1). The set keeps its `W/`, and no stored etag contains a slash.
    etags.add(weak || !etag ? `W/${etag}` : etag);
  }
  if (etags.size > MAX_ETAGS) throw malformed(`If-Match must have at most ${MAX_ETAGS} entity tags`, []);
  if (etags.size === 0) throw malformed("If-Match is empty: send an entity tag, or remove the header", []);
  return [...etags];
}
