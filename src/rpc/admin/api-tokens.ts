import { isApiTokenId, type Role } from "../../domain/api-token.ts";
import { changeBy } from "../change-by.ts";
import { principalOf } from "../context.ts";
import { apiTokenMessage, roleFromMessage } from "./messages.ts";
import { nextPageToken, pageRequest } from "./pages.ts";
import type { AdminParts, AdminRpcs } from "./parts.ts";
import { targetOf } from "./target.ts";
import { timeOf } from "./times.ts";

/** The RPCs on API tokens. The answer of CreateApiToken is the only one that shows a token. */
export function apiTokenRpcs({ environments, apiTokens }: AdminParts) {
  return {
    async createApiToken(request, context) {
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
      const { apiToken, token } = await apiTokens.create(environment, created, changeBy(context));
      return { apiToken: apiTokenMessage(apiToken), token };
    },

    async listApiTokens(request, { values }) {
      const page = pageRequest(request, isApiTokenId);
      const environment = await targetOf(environments, values, request.environment);
      const { items, next } = await apiTokens.list(environment, {}, page);
      return { apiTokens: items.map(apiTokenMessage), nextPageToken: nextPageToken(next) };
    },

    async revokeApiToken(request, context) {
      const environment = await targetOf(environments, context.values, request.environment);
      await apiTokens.revoke(environment, request.apiTokenId, changeBy(context));
      return {};
    },
  } satisfies Partial<AdminRpcs>;
}
