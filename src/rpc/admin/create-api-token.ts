import type { HandlerContext } from "@connectrpc/connect";
import type {
  CreateApiTokenRequest,
  CreateApiTokenResponse,
} from "../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import type { Role } from "../../domain/api-token.ts";
import type { ApiTokenStore, EnvironmentStore } from "../../domain/store.ts";
import { changeBy } from "../change-by.ts";
import { principalOf } from "../context.ts";
import { invalidField } from "../errors.ts";
import { apiTokenMessage, roleFromMessage, timeFromMessage } from "./messages.ts";
import { targetOf } from "./target.ts";

/** The last time that a Timestamp can stand for: the end of the year 9999. */
const MAX_TIME = Date.UTC(10_000, 0) - 1;

/** CreateApiToken: the answer is the only one that shows the token. */
export function createApiToken(environments: EnvironmentStore, tokens: ApiTokenStore) {
  return async (request: CreateApiTokenRequest, context: HandlerContext) => {
    const { values } = context;
    const environment = await targetOf(environments, values, request.environment);
    const created = {
      displayName: request.displayName,
      // Validation requires one that is defined.
      role: roleFromMessage(request.role) as Role,
      expireTime: expireTimeOf(request),
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

/** @throws ConnectError InvalidArgument */
function expireTimeOf({ expireTime }: CreateApiTokenRequest): number | undefined {
  if (!expireTime) return undefined;
  const time = timeFromMessage(expireTime);
  // Protobuf's binary format takes any numbers.
  const isValid = expireTime.nanos >= 0 && expireTime.nanos < 1_000_000_000;
  if (isValid && time <= MAX_TIME) return time;
  throw invalidField("expire_time", "must be a valid time before the year 10000");
}
