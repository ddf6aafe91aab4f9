import type { HandlerContext } from "@connectrpc/connect";
import type { UpdateUserGroupRequest, UpdateUserGroupResponse } from "../../gen/usergroup/v1/user_group_service_pb.ts";
import type { UserGroupStore } from "../domain/store.ts";
import type { UserGroupChange } from "../domain/user-group.ts";
import { changeBy } from "./change-by.ts";
import { environmentOf } from "./context.ts";
import { userGroupMessage } from "./messages.ts";
import { maskedFields } from "./update-mask.ts";

type Field = keyof UserGroupChange;

const FIELDS: readonly Field[] = ["name", "mapping", "properties"];

/** UpdateUserGroup: a partial update (https://google.aip.dev/134). */
export function updateUserGroup(store: UserGroupStore) {
  return async (request: UpdateUserGroupRequest, context: HandlerContext) => {
    const { userGroupId, etag } = request;
    const environment = environmentOf(context.values);
    const group = await store.update(environment, userGroupId, changeOf(request), etag, changeBy(context));
    return {
      $typeName: "usergroup.v1.UpdateUserGroupResponse",
      userGroup: userGroupMessage(group),
    } satisfies UpdateUserGroupResponse;
  };
}

/** @throws InvalidUpdateMask */
function changeOf(request: UpdateUserGroupRequest): UserGroupChange {
  const fields = maskedFields(request, FIELDS, isPopulated);
  return {
    ...(fields.includes("name") && { name: request.name }),
    ...(fields.includes("mapping") && { mapping: request.mapping }),
    ...(fields.includes("properties") && { properties: request.properties ?? null }),
  };
}

function isPopulated(request: UpdateUserGroupRequest, field: Field): boolean {
  if (field === "name") return request.name !== "";
  if (field === "mapping") return Object.keys(request.mapping).length > 0;
  return request.properties !== undefined;
}
