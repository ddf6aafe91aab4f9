import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { type ApiToken as ApiTokenMessage, Role as RoleEnum } from "../../../gen/usergroup/admin/v1/api_token_pb.ts";
import type {
  Environment as EnvironmentMessage,
  EnvironmentName as EnvironmentNameMessage,
} from "../../../gen/usergroup/admin/v1/environment_pb.ts";
import type { UserGroupInfo as UserGroupInfoMessage } from "../../../gen/usergroup/admin/v1/user_group_pb.ts";
import type { Principal } from "../../auth/api-tokens.ts";
import type { ApiToken } from "../../domain/api-token.ts";
import { DAY_MS } from "../../domain/durations.ts";
import type { EnvironmentName, ListedEnvironment } from "../../domain/environment.ts";
import type { FeedEvent } from "../../domain/events.ts";
import { ROLES, type Role } from "../../domain/role.ts";
import type { UserGroupInfo } from "../../domain/user-group.ts";
import { groupFieldsMessage, suspensionMessage, TAG_MESSAGES, tagFromMessage, timestamp } from "../messages.ts";

function roleMessage(role: Role): RoleEnum {
  return RoleEnum[role.toUpperCase() as Uppercase<Role>];
}

export function roleFromMessage(value: RoleEnum): Role | undefined {
  return ROLES.find((role) => roleMessage(role) === value);
}

type Timestamped<R> = {
  readonly [name in keyof R]: name extends `${string}Time` ? Timestamp | Extract<R[name], undefined> : R[name];
};

/** Converts each field whose name ends in `Time` from milliseconds since 1970 to a Timestamp. */
export function withTimestamps<R extends object>(record: R): Timestamped<R> {
  const entries = Object.entries(record).map(([name, value]) => [
    name,
    name.endsWith("Time") ? timestamp(value) : value,
  ]);
  return Object.fromEntries(entries) as Timestamped<R>;
}

export function apiTokenMessage(token: ApiToken): ApiTokenMessage {
  return {
    $typeName: "usergroup.admin.v1.ApiToken",
    ...withTimestamps(token),
    role: roleMessage(token.role),
    rotator: token.rotator ?? "",
  };
}

/**
 * Creates the message of an API token of the settings. The store has no record of this token, so all fields except the
 * id, the name and the role are unset.
 */
export function settingsTokenMessage({ id, displayName, role }: Principal) {
  return { id, displayName, role: role === "root" ? RoleEnum.UNSPECIFIED : roleMessage(role) };
}

export function environmentNameMessage({ name, tag }: EnvironmentName): EnvironmentNameMessage {
  return { $typeName: "usergroup.admin.v1.EnvironmentName", name, tag: TAG_MESSAGES[tag ?? "none"] };
}

export function environmentMessage({ name, tag, createTime, deleteTime }: ListedEnvironment): EnvironmentMessage {
  const $typeName = "usergroup.admin.v1.Environment";
  return withTimestamps({ $typeName, name, tag: TAG_MESSAGES[tag ?? "none"], createTime, deleteTime });
}

export function userGroupInfoMessage(group: UserGroupInfo): UserGroupInfoMessage {
  const { mapping, properties, ...fields } = group;
  return {
    $typeName: "usergroup.admin.v1.UserGroupInfo",
    ...withTimestamps(fields),
    ...groupFieldsMessage(group),
    teamId: BigInt(group.teamId),
    importedToken: group.hasForeignToken,
    suspension: suspensionMessage(group.suspension),
    lastResolveDate: dateText(group.lastResolveDay),
  };
}

/** Formats a day as an ISO 8601 date, such as `2026-01-31`. @param day the number of days since 1970-01-01 */
function dateText(day: number | undefined): string {
  return day === undefined ? "" : new Date(day * DAY_MS).toISOString().slice(0, 10);
}

export function environmentNameFromMessage({ name, tag }: EnvironmentNameMessage): EnvironmentName {
  return { name, tag: tagFromMessage(tag) };
}

export function auditEventMessage(event: FeedEvent) {
  return { ...eventMessage(event), actorDisplayName: event.actorName, peerAddress: event.peer };
}

/** Creates the message of a feed event. Connect does not send the fields of `event` that the message type lacks. */
export function eventMessage(event: FeedEvent) {
  return { ...event, createTime: timestamp(event.time), changedFields: [...event.changedFields] };
}
