import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { ApiEnvironmentTag } from "../../gen/usergroup/v1/user_group_pb.ts";
import { type GetUserGroupResponse, GetUserGroupResponseSchema } from "../../gen/usergroup/v1/user_group_service_pb.ts";
import type { StoredGroup } from "./work.ts";

export function responseMessage(group: StoredGroup): GetUserGroupResponse {
  return create(GetUserGroupResponseSchema, {
    userGroup: {
      teamId: BigInt(group.teamId),
      token: group.token,
      name: group.name,
      providedId: group.providedId,
      mapping: group.mapping,
      properties: group.properties,
      apiEnvironmentTag: ApiEnvironmentTag.CUSTOMER,
      etag: group.etag,
      createTime: timestampFromMs(group.createTime),
      updateTime: timestampFromMs(group.updateTime),
      tokenCreateTime: timestampFromMs(group.tokenCreateTime),
    },
    newUserGroup: false,
  });
}
