import type { HandlerContext } from "@connectrpc/connect";
import type { GetUserGroupRequest, GetUserGroupResponse } from "../../gen/usergroup/v1/user_group_service_pb.ts";
import type { UserGroupStore } from "../domain/store.ts";
import type { UserGroup } from "../domain/user-group.ts";
import { mayCreate } from "./access.ts";
import { environmentOf, principalOf } from "./context.ts";
import { userGroupMessage } from "./messages.ts";

/** GetUserGroup: returns the stored group, or creates it from the request where the caller's role allows that. */
export function getUserGroup(store: UserGroupStore) {
  return (request: GetUserGroupRequest, { values }: HandlerContext) => {
    const environment = environmentOf(values);
    const { userGroupId } = request;
    if (!mayCreate(principalOf(values)))
      return store.get(environment, userGroupId).then((group) => answer(group, false));
    return store
      .getOrCreate(environment, {
        providedId: userGroupId,
        name: request.name ?? userGroupId,
        mapping: request.mapping,
        properties: request.properties,
      })
      .then(({ group, created }) => answer(group, created));
  };
}

function answer(group: UserGroup, newUserGroup: boolean): GetUserGroupResponse {
  return { $typeName: "usergroup.v1.GetUserGroupResponse", userGroup: userGroupMessage(group), newUserGroup };
}
