import type { HandlerContext } from "@connectrpc/connect";
import type { ListApiTokensRequest, ListApiTokensResponse } from "../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { isApiTokenId } from "../../domain/api-token.ts";
import type { ApiTokenStore, EnvironmentStore } from "../../domain/store.ts";
import { apiTokenMessage } from "./messages.ts";
import { nextPageToken, pageRequest } from "./pages.ts";
import { targetOf } from "./target.ts";

/** ListApiTokens. */
export function listApiTokens(environments: EnvironmentStore, tokens: ApiTokenStore) {
  return async (request: ListApiTokensRequest, { values }: HandlerContext) => {
    const page = pageRequest(request, isApiTokenId);
    const environment = await targetOf(environments, values, request.environment);
    const { items, next } = await tokens.list(environment, page);
    return {
      $typeName: "usergroup.admin.v1.ListApiTokensResponse",
      apiTokens: items.map(apiTokenMessage),
      nextPageToken: nextPageToken(next),
    } satisfies ListApiTokensResponse;
  };
}
