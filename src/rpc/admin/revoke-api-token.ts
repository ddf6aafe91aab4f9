import type { HandlerContext } from "@connectrpc/connect";
import type {
  RevokeApiTokenRequest,
  RevokeApiTokenResponse,
} from "../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import type { ApiTokenStore, EnvironmentStore } from "../../domain/store.ts";
import { changeBy } from "../change-by.ts";
import { targetOf } from "./target.ts";

/** RevokeApiToken: ends an API token everywhere. */
export function revokeApiToken(environments: EnvironmentStore, tokens: ApiTokenStore) {
  return async (request: RevokeApiTokenRequest, context: HandlerContext) => {
    const environment = await targetOf(environments, context.values, request.environment);
    await tokens.revoke(environment, request.apiTokenId, changeBy(context));
    return { $typeName: "usergroup.admin.v1.RevokeApiTokenResponse" } satisfies RevokeApiTokenResponse;
  };
}
