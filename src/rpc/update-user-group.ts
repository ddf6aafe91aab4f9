import type { HandlerContext } from "@connectrpc/connect";
import type { UpdateUserGroupRequest, UpdateUserGroupResponse } from "../../gen/usergroup/v1/user_group_service_pb.ts";
import { InvalidUpdateMask } from "../domain/errors.ts";
import type { UserGroupStore } from "../domain/store.ts";
import type { UserGroupChange } from "../domain/user-group.ts";
import { changeBy } from "./change-by.ts";
import { environmentOf } from "./context.ts";
import { userGroupMessage } from "./messages.ts";

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
  const fields = maskedFields(request);
  return {
    ...(fields.includes("name") && { name: request.name }),
    ...(fields.includes("mapping") && { mapping: request.mapping }),
    ...(fields.includes("properties") && { properties: request.properties ?? null }),
  };
}

function maskedFields(request: UpdateUserGroupRequest): readonly Field[] {
  const paths = request.updateMask?.paths ?? [];
  if (paths.length === 0) return populatedFields(request);
  if (paths.length === 1 && paths[0] === "*") return FIELDS;
  return paths.map((path) => {
    const field = FIELDS.find((known) => known === path);
    if (!field) throw new InvalidUpdateMask();
    return field;
  });
}

function populatedFields(request: UpdateUserGroupRequest): readonly Field[] {
  return FIELDS.filter((field) => {
    if (field === "name") return request.name !== "";
    if (field === "mapping") return Object.keys(request.mapping).length > 0;
    return request.properties !== undefined;
  });
}
