import type { ServiceImpl } from "@connectrpc/connect";
import type { AdminService } from "../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import type { ApiTokenStore, AuditStore, EnvironmentStore, UserGroupAdminStore } from "../../domain/store.ts";
import { createApiToken } from "./create-api-token.ts";
import { createEnvironment } from "./create-environment.ts";
import { deleteUserGroup } from "./delete-user-group.ts";
import { exportUserGroups } from "./export-user-groups.ts";
import { importUserGroups } from "./import-user-groups.ts";
import { listApiTokens } from "./list-api-tokens.ts";
import { listAuditEvents } from "./list-audit-events.ts";
import { listEnvironments } from "./list-environments.ts";
import { listUserGroups } from "./list-user-groups.ts";
import { lookupUserGroup } from "./lookup-user-group.ts";
import { revokeApiToken } from "./revoke-api-token.ts";
import { revokeUserGroupTokens } from "./revoke-user-group-tokens.ts";

/** What AdminService depends on. */
export interface AdminParts {
  readonly environments: EnvironmentStore;
  readonly apiTokens: ApiTokenStore;
  readonly userGroups: UserGroupAdminStore;
  readonly audit: AuditStore;
}

/** usergroup.admin.v1.AdminService. */
export function adminService({
  environments,
  apiTokens,
  userGroups,
  audit,
}: AdminParts): ServiceImpl<typeof AdminService> {
  return {
    createEnvironment: createEnvironment(environments),
    listEnvironments: listEnvironments(environments),
    createApiToken: createApiToken(environments, apiTokens),
    listApiTokens: listApiTokens(environments, apiTokens),
    revokeApiToken: revokeApiToken(environments, apiTokens),
    listUserGroups: listUserGroups(environments, userGroups),
    lookupUserGroup: lookupUserGroup(environments, userGroups),
    deleteUserGroup: deleteUserGroup(environments, userGroups),
    revokeUserGroupTokens: revokeUserGroupTokens(environments, userGroups),
    importUserGroups: importUserGroups(environments, userGroups),
    exportUserGroups: exportUserGroups({ environments, userGroups, audit }),
    listAuditEvents: listAuditEvents(environments, audit),
  };
}
