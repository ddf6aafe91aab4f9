import { type Duration, durationMs } from "@bufbuild/protobuf/wkt";
import type { HandlerContext } from "@connectrpc/connect";
import type {
  RotateUserGroupTokenRequest,
  RotateUserGroupTokenResponse,
} from "../../gen/usergroup/v1/user_group_service_pb.ts";
import type { UserGroupStore } from "../domain/store.ts";
import type { RotationTarget } from "../domain/user-group.ts";
import { changeBy } from "./change-by.ts";
import { environmentOf } from "./context.ts";
import { userGroupMessage } from "./messages.ts";

/**
 * RotateUserGroupToken: gives a group a new token.
 *
 * @param defaultGraceMs how long the old token stays valid when the request does not say, in milliseconds
 */
export function rotateUserGroupToken(store: UserGroupStore, defaultGraceMs: number) {
  return async (request: RotateUserGroupTokenRequest, context: HandlerContext) => {
    const askedGraceMs = graceMs(request.previousTokenTtl);
    const rotation = {
      target: targetOf(request),
      graceMs: askedGraceMs ?? defaultGraceMs,
      askedGraceMs,
      requestId: request.requestId || undefined,
    };
    const group = await store.rotate(environmentOf(context.values), rotation, changeBy(context));
    return {
      $typeName: "usergroup.v1.RotateUserGroupTokenResponse",
      userGroup: userGroupMessage(group),
    } satisfies RotateUserGroupTokenResponse;
  };
}

function targetOf({ group }: RotateUserGroupTokenRequest): RotationTarget {
  if (group.case === "userGroupId") return { by: "id", providedId: group.value };
  return { by: "token", token: group.value ?? "" };
}

/** Rounds down to milliseconds, so that a grace never lasts longer than requested. */
function graceMs(ttl: Duration | undefined): number | undefined {
  return ttl && Math.floor(durationMs(ttl));
}
