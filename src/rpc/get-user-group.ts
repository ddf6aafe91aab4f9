import type { HandlerContext } from "@connectrpc/connect";
import type { GetUserGroupRequest, GetUserGroupResponse } from "../../gen/usergroup/v1/user_group_service_pb.ts";
import type { UserGroupStore } from "../domain/store.ts";
import type { UserGroup } from "../domain/user-group.ts";
import { mayCreate } from "./access.ts";
import { changeBy } from "./change-by.ts";
import { environmentOf, principalOf } from "./context.ts";
import { userGroupMessage } from "./messages.ts";

/** GetUserGroup: returns the stored group, or creates it from the request where the caller's role allows that. */
export function getUserGroup(store: UserGroupStore) {
  return (request: GetUserGroupRequest, context: HandlerContext) => {
    const { values } = context;
    const environment = environmentOf(values);
    const { userGroupId } = request;
    if (!mayCreate(principalOf(values)))
      return store.get(environment, userGroupId).then((group) => answer(group, false));
    const group = {
      providedId: userGroupId,
      name: request.name ?? userGroupId,
      mapping: request.mapping,
      properties: request.properties,
    };
    return store
      .getOrCreate(environment, group, changeBy(context))
      .then(({ group, created }) => answer(group, created));
  };
}

function answer(group: UserGroup, newUserGroup: boolean): GetUserGroupResponse {
  return { $typeName: "usergroup.v1.GetUserGroupResponse", userGroup: userGroupMessage(group), newUserGroup };
}
