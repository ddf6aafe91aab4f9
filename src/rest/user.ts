import { isDeepStrictEqual } from "node:util";
import type { DescMethodUnary, Message } from "@bufbuild/protobuf";
import type { ConnectError } from "@connectrpc/connect";
import {
  type Endpoint,
  type EndpointCall,
  type EndpointMethod,
  headerValue,
  recordOf,
} from "@user-group-service/transport";
import type { UserGroup } from "../../gen/usergroup/v1/user_group_pb.ts";
import {
  type GetUserGroupRequest,
  type GetUserGroupResponse,
  UserGroupService,
} from "../../gen/usergroup/v1/user_group_service_pb.ts";
import type { EnvironmentTag } from "../domain/environment.ts";
import type { JsonObject } from "../domain/user-group.ts";
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
} from "./json.ts";

/** A parsed request to `/api/user`. */
interface VerbRequest {
  readonly body: JsonObject;
  /** Undefined: the request has no query. */
  readonly query: URLSearchParams | undefined;
  /** The etags of `If-Match`, one of which must match; undefined when any will do. */
  readonly ifMatch: readonly string[] | undefined;
  /** The value of `Idempotency-Key`. */
  readonly idempotencyKey: string | undefined;
}

/** One verb of `/api/user`: its RPC, and how its JSON maps to the RPC's messages. */
export interface Verb {
  readonly method: DescMethodUnary;
  /** Makes the RPC's request. @throws ConnectError InvalidArgument, which names the invalid field */
  readonly toRequest: (request: VerbRequest) => Message;
  /** Makes the response body of the group, of the rest of the RPC's response and of its request. */
  readonly toBody: (group: UserGroup, response: never, request: never) => object;
}

const { getUserGroup, updateUserGroup, rotateUserGroupToken } = UserGroupService.method;

/** The names of the fields of a group that callers set. */
export const MASKABLE = CHANGEABLE.map(({ name }) => name);

const GROUP_FIELDS = ["user_group_id", ...MASKABLE];

/** The fields that a query string holds as JSON text. */
const JSON_FIELDS: ReadonlySet<string> = new Set(
  CHANGEABLE.filter(({ fieldKind }) => fieldKind !== "scalar").map(({ name }) => name),
);

/** Gets a group, or creates it. */
export const GET: Verb = {
  method: getUserGroup,
  toRequest: getRequest,
  toBody: (group, { newUserGroup }: GetUserGroupResponse, { name, properties }: GetUserGroupRequest) => ({
    success: 1,
    new_user_group: newUserGroup,
    // The interface echoes the request's values, even though an existing group keeps its own.
    user_group: {
      team_id: Number(group.teamId),
      token: group.token,
      name: name ?? group.name,
      provided_id: group.providedId,
      properties: properties ?? group.properties ?? null,
    },
  }),
};

/** Changes a group. */
export const PUT: Verb = {
  method: updateUserGroup,
  toRequest: ({ body, ifMatch }) => {
    const masked = MASKABLE.filter((field) => Object.hasOwn(body, field));
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

/** Gives a group a new token. */
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

/** The request of a GET. A field may be in the body or in the query, or in both with the same value. */
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
      throw wrongQuery(name, "the query and the body differ; give it once");
  }
  if (query && query.size > known) refuseParts(query);
  return messageOf(getUserGroup.input, fields);
}

/** Refuses a part of a field, such as `properties[plan]=free`. Other names in the query are ignored. */
function refuseParts(query: URLSearchParams): void {
  for (const key of query.keys()) {
    const name = GROUP_FIELDS.find((each) => key.startsWith(`${each}[`) || key.startsWith(`${each}.`));
    if (name === undefined) continue;
    const whole = JSON_FIELDS.has(name)
      ? `the JSON of the whole object, percent-encoded: ${name}=%7B%22key%22%3A%22value%22%7D`
      : `${name}=VALUE`;
    throw wrongQuery(name, `the query may not give it in parts; send ${whole}`);
  }
}

function wrongQuery(field: string, description: string, cause?: unknown): ConnectError {
  return malformed(`${field}: ${description}`, [{ field, description }], cause);
}

function queryObject(name: string, text: string): JsonObject {
  try {
    return parseObject(text);
  } catch (cause) {
    throw wrongQuery(name, "must be the text of a JSON object, its keys unique", cause);
  }
}

/** The fields of every response. */
export function common({ teamId, token, name, providedId }: UserGroup) {
  // Team ids are below 2^53.
  return { team_id: Number(teamId), token, name, provided_id: providedId };
}

/** The tag of a group's environment; null where it has none. */
export function tagOf({ apiEnvironmentTag }: UserGroup): EnvironmentTag | null {
  return tagFromMessage(apiEnvironmentTag) ?? null;
}

/** One entity tag of a list, with the comma or end that follows it (RFC 9110, 8.8.3 and 5.6.1). */
const ETAG = /[\t ,]*(W\/)?"([\x21\x23-\x7e]*)"[\t ]*(?:,[\t ,]*|$)/y;

const EMPTY_KEY = "the Idempotency-Key is empty; send a value, or leave the header out";

/** The maximum number of entity tags in `If-Match`. Each may cost a call. */
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
    // Its sender would believe that a retry is safe.
    if (idempotencyKey === "") throw malformed(EMPTY_KEY, [{ field: "request_id", description: "must not be empty" }]);
    if (request.body.byteLength > 0) requireStrict(verb.method, body);
    const message: Message = verb.toRequest({ body, query, ifMatch, idempotencyKey });
    const response = await (ifMatch && ifMatch.length > 1
      ? callUntilMatch(call, message, ifMatch.slice(1))
      : call.invoke(message));
    const { userGroup } = response as Message & { readonly userGroup?: UserGroup };
    if (!userGroup) throw new TypeError("the response has no user group");
    const answer = verb.toBody(userGroup, response as never, message as never);
    const responseHeaders = recordOf(call.responseHeader);
    responseHeaders["etag"] = `"${userGroup.etag}"`;
    return jsonResponse(responseHeaders, JSON.stringify(answer));
  });
}

/**
 * Makes the call, and repeats it with the next entity tag as long as the etag does not match. A group has one etag at a
 * time, so at most one of the calls changes it.
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
 * Parses `If-Match`; undefined when any etag matches. @throws ConnectError InvalidArgument when it is neither a list of
 * entity tags nor `*`
 */
function etagsOf(value: string): string[] | undefined {
  if (value.trim() === "*") return undefined;
  const etags = new Set<string>();
  for (ETAG.lastIndex = 0; ETAG.lastIndex < value.length; ) {
    const match = ETAG.exec(value);
    if (!match) throw malformed('If-Match must be a list of entity tags, such as "abc", "def", or *', []);
    const [, weak, etag] = match;
    // A weak tag never matches (RFC 9110, 13.1.1). The `W/` keeps it from matching, because no stored etag is empty or
    // contains a slash.
    etags.add(weak || !etag ? `W/${etag}` : etag);
  }
  if (etags.size > MAX_ETAGS) throw malformed(`If-Match may list ${MAX_ETAGS} entity tags at most`, []);
  if (etags.size === 0) throw malformed("If-Match is empty; name an entity tag, or leave it out", []);
  return [...etags];
}
