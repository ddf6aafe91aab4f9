import type { HandlerContext } from "@connectrpc/connect";
import type {
  ListUserGroupsRequest,
  ListUserGroupsResponse,
} from "../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import type { EnvironmentStore, UserGroupAdminStore } from "../../domain/store.ts";
import { listedUserGroupMessage } from "./messages.ts";
import { nextPageToken } from "./pages.ts";
import { targetOf } from "./target.ts";
import { userGroupPage } from "./user-group-pages.ts";

/** ListUserGroups. */
export function listUserGroups(environments: EnvironmentStore, groups: UserGroupAdminStore) {
  return async (request: ListUserGroupsRequest, { values }: HandlerContext) => {
    const environment = await targetOf(environments, values, request.environment);
    const { range, scope } = userGroupPage("ListUserGroups", environment, request);
    const { items, next } = await groups.list(environment, range);
    return {
      $typeName: "usergroup.admin.v1.ListUserGroupsResponse",
      userGroups: items.map(listedUserGroupMessage),
      nextPageToken: nextPageToken(next, scope),
    } satisfies ListUserGroupsResponse;
  };
}
