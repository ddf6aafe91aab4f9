import { type EnvironmentName, environmentPath } from "../../domain/environment.ts";
import type { UserGroupRange } from "../../domain/store.ts";
import { MAX_ID_LENGTH } from "../../domain/user-group.ts";
import { changeBy } from "../change-by.ts";
import { timestamp, userGroupMessage } from "../messages.ts";
import { listedUserGroupMessage, userGroupInfoMessage } from "./messages.ts";
import { nextPageToken, type PageOf, pageRequest, type Scope } from "./pages.ts";
import type { AdminParts, AdminRpcs } from "./parts.ts";
import { targetOf } from "./target.ts";

/** The RPCs on user groups, except their import. */
export function userGroupRpcs({ environments, userGroups, audit }: AdminParts) {
  return {
    async listUserGroups(request, { values }) {
      const environment = await targetOf(environments, values, request.environment);
      const { range, scope } = userGroupPage("ListUserGroups", environment, request);
      const { items, next } = await userGroups.list(environment, range);
      return { userGroups: items.map(listedUserGroupMessage), nextPageToken: nextPageToken(next, scope) };
    },

    async lookupUserGroup(request, { values }) {
      const environment = await targetOf(environments, values, request.environment);
      return { userGroup: userGroupInfoMessage(await userGroups.lookUp(environment, request.userGroupId)) };
    },

    async deleteUserGroup(request, context) {
      const environment = await targetOf(environments, context.values, request.environment);
      await userGroups.delete(environment, request.userGroupId, request.etag, changeBy(context));
      return {};
    },

    async revokeUserGroupTokens({ environment: named, userGroupId, requestId }, context) {
      const environment = await targetOf(environments, context.values, named);
      const group = await userGroups.revokeTokens(environment, userGroupId, requestId, changeBy(context));
      return { userGroup: userGroupInfoMessage(group) };
    },

    /** Tokens are shown only once the audit trail has recorded it. */
    async exportUserGroups(request, context) {
      const { includeTokens } = request;
      const environment = await targetOf(environments, context.values, request.environment);
      const { range, scope } = userGroupPage("ExportUserGroups", environment, request);
      const { items, next, snapshotTime } = await userGroups.export(environment, range);
      if (includeTokens && items.length > 0) {
        const exported = { prefix: range.prefix, count: items.length };
        await audit.recordExport(environment, exported, changeBy(context));
      }
      return {
        userGroups: items.map((group) => userGroupMessage(includeTokens ? group : { ...group, token: "" })),
        nextPageToken: nextPageToken(next, scope),
        snapshotTime: timestamp(snapshotTime),
      };
    },
  } satisfies Partial<AdminRpcs>;
}

/**
 * Reads which page of an environment's user groups is asked for.
 *
 * @param method that gives the pages
 * @throws InvalidPageToken, also for a token of another environment, prefix or method
 */
function userGroupPage(
  method: string,
  environment: EnvironmentName,
  request: PageOf & { readonly providedIdPrefix: string },
): { readonly range: UserGroupRange; readonly scope: Scope } {
  const { providedIdPrefix: prefix } = request;
  const scope = [method, environmentPath(environment), prefix];
  const isKey = (id: string) => id !== "" && id.length <= MAX_ID_LENGTH && id.startsWith(prefix);
  return { range: { ...pageRequest(request, isKey, scope), prefix }, scope };
}
