import type {
  ListEnvironmentsRequest,
  ListEnvironmentsResponse,
} from "../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { parseEnvironmentPath } from "../../domain/environment.ts";
import type { EnvironmentStore } from "../../domain/store.ts";
import { environmentMessage } from "./messages.ts";
import { nextPageToken, pageRequest } from "./pages.ts";

/** ListEnvironments. */
export function listEnvironments(environments: EnvironmentStore) {
  return async (request: ListEnvironmentsRequest) => {
    const page = pageRequest(request, (key) => parseEnvironmentPath(key) !== undefined);
    const { items, next } = await environments.list(page);
    return {
      $typeName: "usergroup.admin.v1.ListEnvironmentsResponse",
      environments: items.map(environmentMessage),
      nextPageToken: nextPageToken(next),
    } satisfies ListEnvironmentsResponse;
  };
}
