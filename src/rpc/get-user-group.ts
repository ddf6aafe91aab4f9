import type { HandlerContext } from "@connectrpc/connect";
import type { GetUserGroupRequest, GetUserGroupResponse } from "../../gen/usergroup/v1/user_group_service_pb.ts";
import type { UserGroupStore } from "../domain/store.ts";
import { principalOf } from "./context.ts";
import { userGroupMessage } from "./messages.ts";

/** GetUserGroup: returns the stored group, or creates it from the request. */
export function getUserGroup(store: UserGroupStore) {
  return (request: GetUserGroupRequest, { values }: HandlerContext) =>
    store
      .getOrCreate(principalOf(values).environment, {
        providedId: request.userGroupId,
        name: request.name ?? request.userGroupId,
        mapping: request.mapping,
        properties: request.properties,
      })
      .then(
        ({ group, created }): GetUserGroupResponse => ({
          $typeName: "usergroup.v1.GetUserGroupResponse",
          userGroup: userGroupMessage(group),
          newUserGroup: created,
        }),
      );
}
