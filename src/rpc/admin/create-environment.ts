import type { HandlerContext } from "@connectrpc/connect";
import type {
  CreateEnvironmentRequest,
  CreateEnvironmentResponse,
} from "../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import type { EnvironmentName } from "../../../gen/usergroup/admin/v1/environment_pb.ts";
import type { EnvironmentStore } from "../../domain/store.ts";
import { changeBy } from "../change-by.ts";
import { environmentMessage, environmentNameFromMessage } from "./messages.ts";

/** CreateEnvironment. */
export function createEnvironment(environments: EnvironmentStore) {
  return async ({ environment, partitions }: CreateEnvironmentRequest, context: HandlerContext) => {
    // Validation requires it.
    const name = environmentNameFromMessage(environment as EnvironmentName);
    const created = await environments.create({ ...name, partitions }, changeBy(context));
    return {
      $typeName: "usergroup.admin.v1.CreateEnvironmentResponse",
      environment: environmentMessage(created),
    } satisfies CreateEnvironmentResponse;
  };
}
