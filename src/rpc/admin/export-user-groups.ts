import type { HandlerContext } from "@connectrpc/connect";
import type {
  ExportUserGroupsRequest,
  ExportUserGroupsResponse,
} from "../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import type { AuditStore, EnvironmentStore, UserGroupAdminStore } from "../../domain/store.ts";
import { requireRootForTokens } from "../access.ts";
import { changeBy } from "../change-by.ts";
import { principalOf } from "../context.ts";
import { userGroupMessage } from "../messages.ts";
import { nextPageToken } from "./pages.ts";
import { targetOf } from "./target.ts";
import { userGroupPage } from "./user-group-pages.ts";

/** What an export is made of. */
export interface ExportParts {
  readonly environments: EnvironmentStore;
  readonly userGroups: UserGroupAdminStore;
  readonly audit: Pick<AuditStore, "record">;
}

/**
 * ExportUserGroups: pages of whole groups. Tokens are shown to ADMIN_TOKEN alone, and only once the audit trail has
 * recorded it.
 */
export function exportUserGroups({ environments, userGroups, audit }: ExportParts) {
  return async (request: ExportUserGroupsRequest, context: HandlerContext) => {
    const { values } = context;
    const { includeTokens } = request;
    if (includeTokens) requireRootForTokens(principalOf(values));
    const environment = await targetOf(environments, values, request.environment);
    const { range, scope } = userGroupPage("ExportUserGroups", environment, request);
    const { items, next } = await userGroups.export(environment, range);
    if (includeTokens && items.length > 0) await audit.record(environment, ["token"], changeBy(context));
    return {
      $typeName: "usergroup.admin.v1.ExportUserGroupsResponse",
      userGroups: items.map((group) => userGroupMessage(includeTokens ? group : { ...group, token: "" })),
      nextPageToken: nextPageToken(next, scope),
    } satisfies ExportUserGroupsResponse;
  };
}
