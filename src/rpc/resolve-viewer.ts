import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { HandlerContext } from "@connectrpc/connect";
import type { ResolveViewerRequest } from "../../gen/usergroup/v1/viewer_service_pb.ts";
import type { UserGroupStore } from "../domain/store.ts";
import { principalOf } from "./context.ts";
import { tagMessage } from "./messages.ts";

/** ResolveViewer: the group that a user group token stands for, looked up anew on every call. */
export function resolveViewer(store: UserGroupStore) {
  return async (request: ResolveViewerRequest, { values }: HandlerContext) => {
    const viewer = await store.resolve(principalOf(values).environment, request.token);
    return {
      teamId: BigInt(viewer.teamId),
      name: viewer.name,
      providedId: viewer.providedId,
      mapping: viewer.mapping,
      properties: viewer.properties,
      apiEnvironmentTag: tagMessage(viewer.environmentTag),
      tokenExpireTime: viewer.tokenExpireTime === undefined ? undefined : timestampFromMs(viewer.tokenExpireTime),
    };
  };
}
