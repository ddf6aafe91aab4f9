import type { DescFile } from "@bufbuild/protobuf";
import type { ConnectRouter } from "@connectrpc/connect";
import { file_google_rpc_error_details } from "../../gen/google/rpc/error_details_pb.ts";
import { Health } from "../../gen/grpc/health/v1/health_pb.ts";
import { ServerReflection as ReflectionV1 } from "../../gen/grpc/reflection/v1/reflection_pb.ts";
import { ServerReflection as ReflectionV1Alpha } from "../../gen/grpc/reflection/v1alpha/reflection_pb.ts";
import { AdminService } from "../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { UserGroupService } from "../../gen/usergroup/v1/user_group_service_pb.ts";
import { ViewerService } from "../../gen/usergroup/v1/viewer_service_pb.ts";
import { MAX_OPEN_MESSAGE_BYTES } from "../domain/capacity.ts";
import type { LastResolveNotes } from "../domain/store.ts";
import type { ViewerSessions } from "../sessions/viewer-sessions.ts";
import { apiTokenRpcs } from "./admin/api-tokens.ts";
import { environmentRpcs } from "./admin/environments.ts";
import { eventRpcs } from "./admin/events.ts";
import { metricsRpcs } from "./admin/metrics.ts";
import type { AdminDeps } from "./admin/requests.ts";
import { signingKeyRpcs } from "./admin/signing-keys.ts";
import { storeDataRpcs } from "./admin/store-data.ts";
import { tokenKeyRpcs } from "./admin/token-keys.ts";
import { userGroupRpcs } from "./admin/user-groups.ts";
import { webhookRpcs } from "./admin/webhooks.ts";
import { type HealthDeps, healthService } from "./health.ts";
import { reflection } from "./reflection.ts";
import { userGroupService } from "./user-groups.ts";
import { viewerService } from "./viewers.ts";

export interface RouteDeps extends HealthDeps, AdminDeps {
  readonly sessions: ViewerSessions;
  readonly lastResolves: LastResolveNotes;
  readonly reflection: boolean;
}

/** Loads protovalidate's complete proto file from the npm package. The file in `proto/` has only some of the rules. */
async function loadErrorFiles(): Promise<readonly DescFile[]> {
  const { file_buf_validate_validate } = await import("@bufbuild/protovalidate/gen/buf/validate/validate_pb.js");
  return [file_google_rpc_error_details, file_buf_validate_validate];
}

const OPEN_OPTIONS = { readMaxBytes: MAX_OPEN_MESSAGE_BYTES };

/**
 * Reflection responses are not compressed, because otherwise unauthenticated clients could keep the CPU busy with
 * compression.
 */
const REFLECTION_OPTIONS = { ...OPEN_OPTIONS, compressMinBytes: Number.POSITIVE_INFINITY };

export function routes(deps: RouteDeps): (router: ConnectRouter) => void {
  const { userGroups, rotationGraceMs } = deps;
  const services = [UserGroupService, ViewerService, AdminService];
  const names = services.map(({ typeName }) => typeName);
  const health = healthService(deps, names);
  const reflectionOfAll = reflection([...services, Health, ReflectionV1, ReflectionV1Alpha], loadErrorFiles);
  return (router) => {
    router.service(UserGroupService, userGroupService(userGroups, rotationGraceMs));
    router.service(ViewerService, viewerService(deps));
    router.service(AdminService, {
      ...environmentRpcs(deps),
      ...eventRpcs(deps),
      ...apiTokenRpcs(deps),
      ...userGroupRpcs(deps),
      ...tokenKeyRpcs(deps),
      ...signingKeyRpcs(deps),
      ...storeDataRpcs(deps),
      ...webhookRpcs(deps),
      ...metricsRpcs(deps),
    });
    router.service(Health, health, OPEN_OPTIONS);
    if (!deps.reflection) return;
    router.service(ReflectionV1, reflectionOfAll as never, REFLECTION_OPTIONS);
    router.service(ReflectionV1Alpha, reflectionOfAll as never, REFLECTION_OPTIONS);
  };
}
