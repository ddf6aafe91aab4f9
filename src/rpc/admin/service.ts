import { apiTokenRpcs } from "./api-tokens.ts";
import { auditEventRpcs } from "./audit-events.ts";
import { environmentRpcs } from "./environments.ts";
import { importRpcs } from "./import-user-groups.ts";
import type { AdminParts, AdminRpcs } from "./parts.ts";
import { userGroupRpcs } from "./user-groups.ts";

/** usergroup.admin.v1.AdminService. */
export function adminService(parts: AdminParts): AdminRpcs {
  return {
    ...environmentRpcs(parts),
    ...apiTokenRpcs(parts),
    ...userGroupRpcs(parts),
    ...importRpcs(parts),
    ...auditEventRpcs(parts),
  };
}
