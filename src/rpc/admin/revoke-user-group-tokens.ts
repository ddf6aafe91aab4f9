import type { HandlerContext } from "@connectrpc/connect";
import type {
  RevokeUserGroupTokensRequest,
  RevokeUserGroupTokensResponse,
} from "../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import type { EnvironmentStore, UserGroupAdminStore } from "../../domain/store.ts";
import { changeBy } from "../change-by.ts";
import { userGroupInfoMessage } from "./messages.ts";
import { targetOf } from "./target.ts";

/** RevokeUserGroupTokens: ends the tokens of a group. The answer does not show the new one. */
export function revokeUserGroupTokens(environments: EnvironmentStore, groups: UserGroupAdminStore) {
  return async (request: RevokeUserGroupTokensRequest, context: HandlerContext) => {
    const environment = await targetOf(environments, context.values, request.environment);
    const { userGroupId, requestId } = request;
    const group = await groups.revokeTokens(environment, userGroupId, requestId, changeBy(context));
    return {
      $typeName: "usergroup.admin.v1.RevokeUserGroupTokensResponse",
      userGroup: userGroupInfoMessage(group),
    } satisfies RevokeUserGroupTokensResponse;
  };
}
