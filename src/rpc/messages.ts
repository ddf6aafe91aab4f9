import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { ApiEnvironmentTag, type UserGroupSchema } from "../../gen/usergroup/v1/user_group_pb.ts";
import type { EnvironmentTag } from "../domain/environment.ts";
import type { UserGroup } from "../domain/user-group.ts";

/** A user group as its message. */
export function userGroupMessage(group: UserGroup): MessageInitShape<typeof UserGroupSchema> {
  return {
    teamId: BigInt(group.teamId),
    token: group.token,
    name: group.name,
    providedId: group.providedId,
    mapping: group.mapping,
    properties: group.properties,
    apiEnvironmentTag: tagMessage(group.environmentTag),
    etag: group.etag,
    createTime: timestampFromMs(group.createTime),
    updateTime: timestampFromMs(group.updateTime),
    tokenCreateTime: timestampFromMs(group.tokenCreateTime),
  };
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
