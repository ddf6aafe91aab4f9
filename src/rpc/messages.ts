import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { ApiEnvironmentTag, type UserGroup as UserGroupMessage } from "../../gen/usergroup/v1/user_group_pb.ts";
import type { EnvironmentTag } from "../domain/environment.ts";
import type { UserGroup } from "../domain/user-group.ts";

/*
 * Messages are written as object literals, because `create` would look up every field of each. The types make sure that
 * no field is missing.
 */

/** Converts a user group to its message. */
export function userGroupMessage(group: UserGroup): UserGroupMessage {
  const message: UserGroupMessage = {
    $typeName: "usergroup.v1.UserGroup",
    teamId: BigInt(group.teamId),
    token: group.token,
    name: group.name,
    providedId: group.providedId,
    mapping: group.mapping,
    apiEnvironmentTag: tagMessage(group.environmentTag),
    etag: group.etag,
    createTime: timestamp(group.createTime),
    updateTime: timestamp(group.updateTime),
    tokenCreateTime: timestamp(group.tokenCreateTime),
  };
  if (group.properties !== undefined) message.properties = group.properties;
  return message;
}

/** Converts an environment tag to its enum value. */
export function tagMessage(tag: EnvironmentTag | undefined): ApiEnvironmentTag {
  switch (tag) {
    case "Customer":
      return ApiEnvironmentTag.CUSTOMER;
    case "Testing":
      return ApiEnvironmentTag.TESTING;
    case undefined:
      return ApiEnvironmentTag.UNSPECIFIED;
  }
}

/** Converts an environment tag from its enum value; undefined for every other value. */
export function tagFromMessage(value: ApiEnvironmentTag): EnvironmentTag | undefined {
  switch (value) {
    case ApiEnvironmentTag.CUSTOMER:
      return "Customer";
    case ApiEnvironmentTag.TESTING:
      return "Testing";
    default:
      return undefined;
  }
}

/** Converts a time in milliseconds since 1970 to its message. */
export function timestamp(ms: number): Timestamp {
  const seconds = Math.floor(ms / 1000);
  return { $typeName: "google.protobuf.Timestamp", seconds: BigInt(seconds), nanos: (ms - seconds * 1000) * 1_000_000 };
}
