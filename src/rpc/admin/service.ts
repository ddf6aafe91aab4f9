import type { ServiceImpl } from "@connectrpc/connect";
import type { AdminService } from "../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import type { ApiTokenStore, AuditStore, EnvironmentStore } from "../../domain/store.ts";
import { createApiToken } from "./create-api-token.ts";
import { createEnvironment } from "./create-environment.ts";
import { listApiTokens } from "./list-api-tokens.ts";
import { listAuditEvents } from "./list-audit-events.ts";
import { listEnvironments } from "./list-environments.ts";
import { revokeApiToken } from "./revoke-api-token.ts";

/** What AdminService depends on. */
export interface AdminParts {
  readonly environments: EnvironmentStore;
  readonly apiTokens: ApiTokenStore;
  readonly audit: AuditStore;
}

/** usergroup.admin.v1.AdminService. */
export function adminService({ environments, apiTokens, audit }: AdminParts): ServiceImpl<typeof AdminService> {
  return {
    createEnvironment: createEnvironment(environments),
    listEnvironments: listEnvironments(environments),
    createApiToken: createApiToken(environments, apiTokens),
    listApiTokens: listApiTokens(environments, apiTokens),
    revokeApiToken: revokeApiToken(environments, apiTokens),
    listAuditEvents: listAuditEvents(environments, audit),
  };
}
