import type { HandlerContext } from "@connectrpc/connect";
import type {
  CreateApiTokenRequest,
  CreateApiTokenResponse,
} from "../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import type { Role } from "../../domain/api-token.ts";
import type { ApiTokenStore, EnvironmentStore } from "../../domain/store.ts";
import { changeBy } from "../change-by.ts";
import { principalOf } from "../context.ts";
import { apiTokenMessage, roleFromMessage } from "./messages.ts";
import { targetOf } from "./target.ts";
import { timeOf } from "./times.ts";

/** CreateApiToken: the answer is the only one that shows the token. */
export function createApiToken(environments: EnvironmentStore, tokens: ApiTokenStore) {
  return async (request: CreateApiTokenRequest, context: HandlerContext) => {
    const { values } = context;
    const environment = await targetOf(environments, values, request.environment);
    const expireTime = timeOf("expire_time", request.expireTime);
    const created = {
      displayName: request.displayName,
      // Validation requires one that is defined.
      role: roleFromMessage(request.role) as Role,
      expireTime: expireTime === undefined ? undefined : Math.floor(expireTime),
      creator: principalOf(values).id,
    };
    const { apiToken, token } = await tokens.create(environment, created, changeBy(context));
    return {
      $typeName: "usergroup.admin.v1.CreateApiTokenResponse",
      apiToken: apiTokenMessage(apiToken),
      token,
    } satisfies CreateApiTokenResponse;
  };
}
