import type { ServiceImpl } from "@connectrpc/connect";
import type { UpdateUserGroupRequest, UserGroupService } from "../../gen/usergroup/v1/user_group_service_pb.ts";
import type { UserGroupStore } from "../domain/store.ts";
import type { Rotation, UserGroupChange } from "../domain/user-group.ts";
import { graceMsOf, groupTarget, maskedFields, userGroupMessage } from "./messages.ts";
import { callOf } from "./observed-call.ts";

type Field = keyof UserGroupChange;

const FIELDS: readonly Field[] = ["name", "mapping", "properties"];

/**
 * UserGroupService.
 *
 * @param defaultGraceMs how long a rotated token stays valid when the request does not say, in milliseconds
 */
export function userGroupService(store: UserGroupStore, defaultGraceMs: number) {
  return {
    /** Returns the stored group, or creates it from the request where the caller's role allows that. */
    async getUserGroup({ userGroupId, name, mapping, properties }, { values }) {
      const call = callOf(values);
      const wanted = { providedId: userGroupId, name: name ?? userGroupId, mapping, properties };
      const { group, created } = call.mayCreate
        ? await store.getOrCreate(call.environment, wanted, call)
        : { group: await store.get(call.environment, userGroupId), created: false };
      return {
        $typeName: "usergroup.v1.GetUserGroupResponse",
        userGroup: userGroupMessage(group),
        newUserGroup: created,
      };
    },

    /** A partial update (https://google.aip.dev/134). */
    async updateUserGroup(request, { values }) {
      const call = callOf(values);
      const { userGroupId, etag } = request;
      const group = await store.update(call.environment, userGroupId, changeOf(request), etag, call);
      return { $typeName: "usergroup.v1.UpdateUserGroupResponse", userGroup: userGroupMessage(group) };
    },

    /** Gives a group a new token. */
    async rotateUserGroupToken({ group, previousTokenTtl, requestId }, { values }) {
      const call = callOf(values);
      // Rounded down, so that a grace never lasts longer than requested.
      const askedGraceMs = graceMsOf(previousTokenTtl);
      const rotation: Rotation = {
        target: groupTarget(group),
        graceMs: askedGraceMs ?? defaultGraceMs,
        askedGraceMs,
        requestId: requestId || undefined,
      };
      const rotated = await store.rotate(call.environment, rotation, call);
      return { $typeName: "usergroup.v1.RotateUserGroupTokenResponse", userGroup: userGroupMessage(rotated) };
    },
  } satisfies ServiceImpl<typeof UserGroupService>;
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
