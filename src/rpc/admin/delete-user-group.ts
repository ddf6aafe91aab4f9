import type { HandlerContext } from "@connectrpc/connect";
import type {
  DeleteUserGroupRequest,
  DeleteUserGroupResponse,
} from "../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import type { EnvironmentStore, UserGroupAdminStore } from "../../domain/store.ts";
import { changeBy } from "../change-by.ts";
import { targetOf } from "./target.ts";

/** DeleteUserGroup: ends a group and its tokens, and frees its id. */
export function deleteUserGroup(environments: EnvironmentStore, groups: UserGroupAdminStore) {
  return async (request: DeleteUserGroupRequest, context: HandlerContext) => {
    const environment = await targetOf(environments, context.values, request.environment);
    await groups.delete(environment, request.userGroupId, request.etag, changeBy(context));
    return { $typeName: "usergroup.admin.v1.DeleteUserGroupResponse" } satisfies DeleteUserGroupResponse;
  };
}
