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

const TAGS: { readonly [tag in EnvironmentTag]: ApiEnvironmentTag } = {
  Customer: ApiEnvironmentTag.CUSTOMER,
  Testing: ApiEnvironmentTag.TESTING,
};

/** Converts an environment tag to its enum value. */
export function tagMessage(tag: EnvironmentTag | undefined): ApiEnvironmentTag {
  return tag === undefined ? ApiEnvironmentTag.UNSPECIFIED : TAGS[tag];
}

/** Converts an environment tag from its enum value; undefined for every other value. */
export function tagFromMessage(value: ApiEnvironmentTag): EnvironmentTag | undefined {
  return (Object.keys(TAGS) as EnvironmentTag[]).find((tag) => TAGS[tag] === value);
}

/** Converts a time in milliseconds since 1970 to its message. */
export function timestamp(ms: number): Timestamp {
  const seconds = Math.floor(ms / 1000);
  return { $typeName: "google.protobuf.Timestamp", seconds: BigInt(seconds), nanos: (ms - seconds * 1000) * 1_000_000 };
}
