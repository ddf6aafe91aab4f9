import type { HandlerContext } from "@connectrpc/connect";
import type { ResolveViewerRequest, ResolveViewerResponse } from "../../gen/usergroup/v1/viewer_service_pb.ts";
import type { UserGroupStore } from "../domain/store.ts";
import { environmentOf } from "./context.ts";
import { tagMessage, timestamp } from "./messages.ts";

/** ResolveViewer: returns the group of a user group token. Every call reads the store. */
export function resolveViewer(store: UserGroupStore) {
  return async (request: ResolveViewerRequest, { values }: HandlerContext) => {
    const viewer = await store.resolve(environmentOf(values), request.token);
    return {
      $typeName: "usergroup.v1.ResolveViewerResponse",
      teamId: BigInt(viewer.teamId),
      name: viewer.name,
      providedId: viewer.providedId,
      mapping: viewer.mapping,
      ...(viewer.properties !== undefined && { properties: viewer.properties }),
      apiEnvironmentTag: tagMessage(viewer.environmentTag),
      ...(viewer.tokenExpireTime !== undefined && { tokenExpireTime: timestamp(viewer.tokenExpireTime) }),
    } satisfies ResolveViewerResponse;
  };
}
