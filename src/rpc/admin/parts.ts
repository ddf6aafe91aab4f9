import type { ServiceImpl } from "@connectrpc/connect";
import type { AdminService } from "../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import type { Principal } from "../../auth/authenticator.ts";
import type { ApiTokenStore } from "../../domain/api-token.ts";
import type { AuditStore, EnvironmentDeletion, EnvironmentStore, UserGroupAdminStore } from "../../domain/store.ts";
import type { Logger } from "../../observability/log.ts";
import type { Metrics } from "../../observability/metrics.ts";

/** What AdminService depends on. */
export interface AdminParts {
  readonly environments: EnvironmentStore;
  readonly environmentDeletion: EnvironmentDeletion;
  readonly apiTokens: ApiTokenStore;
  readonly credentials: {
    /** Whose credential of the settings a text is; undefined when it is none. */
    ofSettings(token: string): Principal | undefined;
  };
  readonly userGroups: UserGroupAdminStore;
  readonly audit: AuditStore;
  readonly logger: Pick<Logger, "warn">;
  readonly metrics: Pick<Metrics, "imported">;
}

/** The implementation of AdminService, one resource per file. */
export type AdminRpcs = ServiceImpl<typeof AdminService>;
