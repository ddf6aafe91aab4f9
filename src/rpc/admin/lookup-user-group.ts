import type { HandlerContext } from "@connectrpc/connect";
import type {
  LookupUserGroupRequest,
  LookupUserGroupResponse,
} from "../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import type { EnvironmentStore, UserGroupAdminStore } from "../../domain/store.ts";
import { userGroupInfoMessage } from "./messages.ts";
import { targetOf } from "./target.ts";

/** LookupUserGroup: shows a group without its token, and never creates it. */
export function lookupUserGroup(environments: EnvironmentStore, groups: UserGroupAdminStore) {
  return async (request: LookupUserGroupRequest, { values }: HandlerContext) => {
    const environment = await targetOf(environments, values, request.environment);
    const group = await groups.lookUp(environment, request.userGroupId);
    return {
      $typeName: "usergroup.admin.v1.LookupUserGroupResponse",
      userGroup: userGroupInfoMessage(group),
    } satisfies LookupUserGroupResponse;
  };
}
