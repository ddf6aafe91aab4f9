import type { EnvironmentName } from "../../../gen/usergroup/admin/v1/environment_pb.ts";
import { parseEnvironmentPath } from "../../domain/environment.ts";
import { changeBy } from "../change-by.ts";
import { environmentMessage, environmentNameFromMessage } from "./messages.ts";
import { nextPageToken, pageRequest } from "./pages.ts";
import type { AdminParts, AdminRpcs } from "./parts.ts";

/** The RPCs on environments. */
export function environmentRpcs({ environments }: AdminParts) {
  return {
    async createEnvironment({ environment, partitions }, context) {
      // Validation requires it.
      const name = environmentNameFromMessage(environment as EnvironmentName);
      const created = await environments.create({ ...name, partitions }, changeBy(context));
      return { environment: environmentMessage(created) };
    },

    async listEnvironments(request) {
      const page = pageRequest(request, (key) => parseEnvironmentPath(key) !== undefined);
      const { items, next } = await environments.list(page);
      return { environments: items.map(environmentMessage), nextPageToken: nextPageToken(next) };
    },
  } satisfies Partial<AdminRpcs>;
}
