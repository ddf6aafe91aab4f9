import {
  type DescMessage,
  type DescMethodUnary,
  fromJson,
  type JsonValue,
  type MessageShape,
} from "@bufbuild/protobuf";
import type { UserGroup } from "../../gen/usergroup/v1/user_group_pb.ts";
import {
  type GetUserGroupRequest,
  type GetUserGroupResponse,
  UserGroupService,
} from "../../gen/usergroup/v1/user_group_service_pb.ts";
import type { EnvironmentTag } from "../domain/environment.ts";
import type { Json, JsonObject } from "../domain/user-group.ts";
import { tagFromMessage } from "../rpc/messages.ts";
import { malformed, refusedJson } from "../rpc/refusals.ts";
import { oneOf, parseObject } from "./json-body.ts";

/** A parsed request to `/api/user`. */
export interface VerbRequest {
  readonly body: JsonObject;
  /** Undefined: the request has no query. */
  readonly query: URLSearchParams | undefined;
  /** The etags of `If-Match`, one of which must match; undefined when any will do. */
  readonly ifMatch: readonly string[] | undefined;
  /** The value of `Idempotency-Key`. */
  readonly idempotencyKey: string | undefined;
}

/** One verb of `/api/user`: its RPC, and how its JSON maps to the RPC's messages. */
export interface Verb<M extends DescMethodUnary = DescMethodUnary> {
  readonly method: M;
  /** Makes the RPC's request. @throws ConnectError InvalidArgument, which names the invalid field */
  readonly toRequest: (request: VerbRequest) => MessageShape<M["input"]>;
  /** Makes the response body. */
  readonly toText: (response: MessageShape<M["output"]>, request: MessageShape<M["input"]>) => string;
}

const { getUserGroup, updateUserGroup, rotateUserGroupToken } = UserGroupService.method;

const GET_FIELDS = ["user_group_id", "name", "mapping", "properties"] as const;

const MASKABLE = ["name", "mapping", "properties"] as const;

const GET: Verb<typeof getUserGroup> = {
  method: getUserGroup,
  toRequest: (request) => {
    const fields = getFields(request);
    return plainGetRequest(fields) ?? message(getUserGroup.input, fields);
  },
  toText: ({ userGroup, newUserGroup }: GetUserGroupResponse, { name, properties }) => {
    const group = required(userGroup);
    // The interface echoes the request's values, even though an existing group keeps its own.
    const fields = Object.assign(common(group, name), { properties: properties ?? group.properties ?? null });
    return JSON.stringify({ success: 1, new_user_group: newUserGroup, user_group: fields });
  },
};

const PUT: Verb<typeof updateUserGroup> = {
  method: updateUserGroup,
  toRequest: ({ body, ifMatch }) => {
    const masked = MASKABLE.filter((field) => Object.hasOwn(body, field));
    return message(updateUserGroup.input, {
      ...pick(body, ["user_group_id", ...MASKABLE]),
      ...(masked.length > 0 && { update_mask: masked.join(",") }),
      ...(ifMatch !== undefined && { etag: ifMatch[0] }),
    });
  },
  toText: ({ userGroup }) => {
    const group = required(userGroup);
    const fields = { properties: group.properties ?? null, api_environment_tag: tagOf(group) };
    return JSON.stringify({ success: 1, user_group: Object.assign(common(group), fields) });
  },
};

const POST: Verb<typeof rotateUserGroupToken> = {
  method: rotateUserGroupToken,
  toRequest: ({ body, idempotencyKey }) =>
    message(rotateUserGroupToken.input, {
      ...pick(body, ["current_token", "user_group_id", "previous_token_ttl"]),
      ...(idempotencyKey !== undefined && { request_id: idempotencyKey }),
    }),
  toText: ({ userGroup }) => {
    const group = required(userGroup);
    const fields = Object.assign(common(group), { api_environment_tag: tagOf(group) });
    return JSON.stringify({ success: 1, user_group: fields });
  },
};

/** The verbs of `/api/user`. */
export const VERBS: ReadonlyMap<string, Verb> = new Map<string, Verb>([
  ["GET", GET as unknown as Verb],
  ["PUT", PUT as unknown as Verb],
  ["POST", POST as unknown as Verb],
]);

/**
 * The request of a GET with an id and perhaps a name, as most are, without protobuf-es' decoder; undefined for all
 * others.
 */
function plainGetRequest({ user_group_id, name, mapping, properties }: JsonObject): GetUserGroupRequest | undefined {
  if (!isText(user_group_id) || mapping !== undefined || properties !== undefined) return undefined;
  const $typeName = "usergroup.v1.GetUserGroupRequest";
  if (name === undefined) return { $typeName, userGroupId: user_group_id, mapping: {} };
  return isText(name) ? { $typeName, userGroupId: user_group_id, name, mapping: {} } : undefined;
}

/** Whether protobuf-es takes the value for a string field. */
function isText(value: Json | undefined): value is string {
  return typeof value === "string" && value.isWellFormed();
}

/** The fields of a GET. Fields of the body take precedence over those of the query. */
function getFields({ body, query }: VerbRequest): JsonObject {
  const fields = pick(body, GET_FIELDS);
  if (query === undefined) return fields;
  for (const name of GET_FIELDS) {
    const value = oneOf(query, name);
    if (value === undefined) continue;
    const isJson = name === "mapping" || name === "properties";
    fields[name] ??= isJson ? queryObject(name, value) : value;
  }
  return fields;
}

function queryObject(name: string, text: string): JsonObject {
  try {
    return parseObject(text);
  } catch (cause) {
    const description = "must be the text of a JSON object, its keys unique";
    throw malformed(`${name}: ${description}`, [{ field: name, description }], cause);
  }
}

/** Picks the fields that are present and not null. For the proto messages, null means absent. */
function pick(body: JsonObject, names: readonly string[]): JsonObject {
  const picked: JsonObject = {};
  for (const name of names) {
    const value = Object.hasOwn(body, name) ? body[name] : null;
    if (value !== null && value !== undefined) picked[name] = value;
  }
  return picked;
}

function message<D extends DescMessage>(desc: D, fields: JsonObject): MessageShape<D> {
  try {
    return fromJson(desc, fields as JsonValue);
  } catch (cause) {
    throw refusedJson(cause, desc);
  }
}

/** The fields of every response. The name may differ from the group's. */
function common({ teamId, token, name, providedId }: UserGroup, shownName = name) {
  // Team ids are below 2^53.
  return { team_id: Number(teamId), token, name: shownName, provided_id: providedId };
}

function tagOf({ apiEnvironmentTag }: UserGroup): EnvironmentTag | null {
  return tagFromMessage(apiEnvironmentTag) ?? null;
}

function required(group: UserGroup | undefined): UserGroup {
  if (!group) throw new TypeError("the response has no user group");
  return group;
}
