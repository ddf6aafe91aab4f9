import { type DescField, type DescMessage, isFieldSet, type Message } from "@bufbuild/protobuf";
import { type Duration, durationMs, type FieldMask, type Timestamp } from "@bufbuild/protobuf/wkt";
import {
  ApiEnvironmentTag,
  type Suspension as SuspensionMessage,
  type UserGroup as UserGroupMessage,
} from "../../gen/usergroup/v1/user_group_pb.ts";
import { UpdateUserGroupRequestSchema } from "../../gen/usergroup/v1/user_group_service_pb.ts";
import type { Environment, EnvironmentTag } from "../domain/environment.ts";
import { InvalidUpdateMask } from "../domain/errors.ts";
import type { GroupFields, NewUserGroup, Suspension, UserGroup, UserGroupTarget } from "../domain/user-group.ts";

/*
 * The functions return messages as object literals, because `create` of protobuf-es would look up every field. The
 * types guarantee that no field is missing.
 */

/** The fields of a user group that an update can change. */
export const CHANGEABLE: readonly DescField[] = UpdateUserGroupRequestSchema.fields.filter(
  ({ name }) => !["user_group_id", "update_mask", "etag"].includes(name),
);

export function groupFieldsMessage({
  name,
  mapping = {},
  properties,
}: Pick<GroupFields, "name"> & Partial<GroupFields>) {
  return properties === undefined ? { name, mapping } : { name, mapping, properties };
}

/** Returns the user group of a request. If the request has no name, the id is also the name. */
export function groupFromMessage(
  providedId: string,
  { name = providedId, mapping, properties, expireTime }: GroupMessage,
): NewUserGroup {
  return { providedId, name, mapping, properties, expireTime: timeOf(expireTime, Math.floor) };
}

type GroupMessage = Pick<GroupFields, "mapping"> &
  Partial<Omit<GroupFields, "expireTime">> & { readonly expireTime?: Timestamp | undefined };

/** @param token the token in the message. Default: the token of the group, or empty if the group is suspended */
export function userGroupMessage(
  group: UserGroup,
  { tag }: Environment,
  token = group.suspension ? "" : group.token,
): UserGroupMessage {
  return {
    $typeName: "usergroup.v1.UserGroup",
    teamId: BigInt(group.teamId),
    token,
    providedId: group.providedId,
    ...groupFieldsMessage(group),
    apiEnvironmentTag: TAG_MESSAGES[tag ?? "none"],
    etag: group.etag,
    createTime: timestamp(group.createTime),
    updateTime: timestamp(group.updateTime),
    tokenCreateTime: timestamp(group.tokenCreateTime),
    expireTime: timestamp(group.expireTime),
    suspension: suspensionMessage(group.suspension),
  };
}

export function suspensionMessage(suspension: Suspension | undefined): SuspensionMessage | undefined {
  if (!suspension) return undefined;
  const { reason, message, suspendTime, until } = suspension;
  const times = { suspendTime: timestamp(suspendTime), until: timestamp(until) };
  return { $typeName: "usergroup.v1.Suspension", reason, message, ...times };
}

export const TAG_MESSAGES: { readonly [tag in EnvironmentTag | "none"]: ApiEnvironmentTag } = {
  none: ApiEnvironmentTag.UNSPECIFIED,
  Customer: ApiEnvironmentTag.CUSTOMER,
  Testing: ApiEnvironmentTag.TESTING,
};

export function tagFromMessage(value: ApiEnvironmentTag): EnvironmentTag | undefined {
  return (["Customer", "Testing"] as const).find((tag) => TAG_MESSAGES[tag] === value);
}

/** Converts milliseconds since 1970 to a Timestamp. */
export function timestamp(ms: number): Timestamp;
export function timestamp(ms: number | undefined): Timestamp | undefined;
export function timestamp(ms: number | undefined): Timestamp | undefined {
  if (ms === undefined) return undefined;
  const seconds = Math.floor(ms / 1000);
  return { $typeName: "google.protobuf.Timestamp", seconds: BigInt(seconds), nanos: (ms - seconds * 1000) * 1_000_000 };
}

/**
 * Returns the fields that an update changes (https://google.aip.dev/134). A mask names these fields, and the mask `*`
 * stands for all fields. If the request has no mask, the update changes the fields that the request sets.
 *
 * @param fields the names of the updatable fields in the proto files
 * @throws InvalidUpdateMask
 */
export function maskedFields<Field extends string>(
  schema: DescMessage,
  request: Message & { readonly updateMask?: FieldMask },
  fields: readonly Field[],
): readonly Field[] {
  const paths = request.updateMask?.paths ?? [];
  if (paths.length === 0)
    return fields.filter((name) => schema.fields.some((field) => field.name === name && isFieldSet(request, field)));
  if (paths.length === 1 && paths[0] === "*") return fields;
  return paths.map((path) => {
    const field = fields.find((known) => known === path);
    if (!field) throw new InvalidUpdateMask(...fields);
    return field;
  });
}

/** Converts a Timestamp to milliseconds since 1970. @param round rounds the result. Default: keeps fractions */
export function timeOf(time: Timestamp | undefined, round = (ms: number) => ms): number | undefined {
  return time && round(Number(time.seconds) * 1000 + time.nanos / 1_000_000);
}

export function groupTarget({
  case: by,
  value = "",
}: {
  readonly case?: string;
  readonly value?: string;
}): UserGroupTarget {
  return by === "userGroupId" ? { by: "id", providedId: value } : { by: "token", token: value };
}

/** Converts a grace period to milliseconds. Default: no grace period */
export function graceMsOf(ttl: Duration | undefined): number {
  return ttl ? durationMs(ttl) : 0;
}
