import type { EnvironmentName } from "../../../gen/usergroup/admin/v1/environment_pb.ts";
import { MAX_API_TOKENS } from "../../domain/api-token.ts";
import { parseEnvironmentPath } from "../../domain/environment.ts";
import { changeBy } from "../change-by.ts";
import { environmentMessage, environmentNameFromMessage } from "./messages.ts";
import { nextPageToken, pageRequest } from "./pages.ts";
import type { AdminParts, AdminRpcs } from "./parts.ts";
import { targetName } from "./target.ts";

/** The RPCs on environments. */
export function environmentRpcs({ environments, environmentDeletion, apiTokens }: AdminParts) {
  return {
    async createEnvironment({ environment, partitions }, context) {
      // Validation requires it.
      const name = environmentNameFromMessage(environment as EnvironmentName);
      const created = await environments.create({ ...name, partitions }, changeBy(context));
      return { environment: environmentMessage(created) };
    },

    async getEnvironment(request, { values }) {
      const name = targetName(values, request.environment);
      const environment = await environments.get(name);
      const [userGroups, { items }] = await Promise.all([
        environments.countUserGroups(environment),
        apiTokens.list(environment, {}, { after: "", size: MAX_API_TOKENS }),
      ]);
      return {
        environment: environmentMessage(environment),
        userGroupCount: BigInt(userGroups),
        apiTokenCount: items.length,
      };
    },

    async deleteEnvironment({ environment, force }, context) {
      // Validation requires it.
      const name = environmentNameFromMessage(environment as EnvironmentName);
      const left = await environmentDeletion.delete(name, force, changeBy(context));
      return { done: left === 0, remainingUserGroups: BigInt(left) };
    },

    async listEnvironments(request) {
      const page = pageRequest(request, (key) => parseEnvironmentPath(key) !== undefined);
      const { items, next } = await environments.list(page);
      return { environments: items.map(environmentMessage), nextPageToken: nextPageToken(next) };
    },
  } satisfies Partial<AdminRpcs>;
}
