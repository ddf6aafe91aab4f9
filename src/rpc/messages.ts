import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { ApiEnvironmentTag, type UserGroup as UserGroupMessage } from "../../gen/usergroup/v1/user_group_pb.ts";
import type { EnvironmentTag } from "../domain/environment.ts";
import type { UserGroup } from "../domain/user-group.ts";

/*
 * Messages are written out whole, for `create` would look up every field of
 * every one; their types see to it that no field is missing.
 */

/** A user group as its message. */
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

/** An environment's tag as its enum value. */
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

/** A time in milliseconds since 1970 as its message. */
export function timestamp(ms: number): Timestamp {
  const seconds = Math.floor(ms / 1000);
  return { $typeName: "google.protobuf.Timestamp", seconds: BigInt(seconds), nanos: (ms - seconds * 1000) * 1_000_000 };
}
