import { durationMs } from "@bufbuild/protobuf/wkt";
import type { ServiceImpl } from "@connectrpc/connect";
import {
  type UpdateUserGroupRequest,
  UpdateUserGroupRequestSchema,
  type UserGroupService,
} from "../../gen/usergroup/v1/user_group_service_pb.ts";
import type { UserGroupStore } from "../domain/store.ts";
import type { Rotation, UserGroupChange } from "../domain/user-group.ts";
import { hasRole } from "./access.ts";
import { callOf } from "./call-context.ts";
import { CHANGEABLE, groupFromMessage, groupTarget, maskedFields, timeOf, userGroupMessage } from "./messages.ts";

const NAMES = CHANGEABLE.map(({ name }) => name);

/** Creates UserGroupService. @param defaultGraceMs the default grace period of a rotated token, in milliseconds */
export function userGroupService(store: UserGroupStore, defaultGraceMs: number) {
  return {
    /** Returns the stored group. Creates a missing group if the caller has the role `manage` or higher. */
    async getUserGroup(request, { values }) {
      const call = callOf(values);
      const { userGroupId } = request;
      const wanted = groupFromMessage(userGroupId, request);
      const { group, created } = hasRole(call, "manage")
        ? await store.getOrCreate(call.environment, wanted, call)
        : { group: await store.get(call.environment, userGroupId), created: false };
      return {
        $typeName: "usergroup.v1.GetUserGroupResponse",
        userGroup: userGroupMessage(group, call.environment),
        newUserGroup: created,
      };
    },

    /** Changes only the fields of the mask (https://google.aip.dev/134). */
    async updateUserGroup(request, { values }) {
      const call = callOf(values);
      const { userGroupId, etag } = request;
      const group = await store.update(call.environment, userGroupId, changeOf(request), etag, call);
      return {
        $typeName: "usergroup.v1.UpdateUserGroupResponse",
        userGroup: userGroupMessage(group, call.environment),
      };
    },

    async rotateUserGroupToken({ group, previousTokenTtl, requestId }, { values }) {
      const call = callOf(values);
      const requestedGraceMs = previousTokenTtl && durationMs(previousTokenTtl);
      const rotation: Rotation = {
        target: groupTarget(group),
        graceMs: requestedGraceMs ?? defaultGraceMs,
        requestedGraceMs,
        requestId: requestId || undefined,
      };
      const rotated = await store.rotate(call.environment, rotation, call);
      return {
        $typeName: "usergroup.v1.RotateUserGroupTokenResponse",
        userGroup: userGroupMessage(rotated, call.environment),
      };
    },
  } satisfies ServiceImpl<typeof UserGroupService>;
}

function changeOf(request: UpdateUserGroupRequest): UserGroupChange {
  const names = maskedFields(UpdateUserGroupRequestSchema, request, NAMES);
  const changed = CHANGEABLE.filter(({ name }) => names.includes(name));
  // If a field of the mask is unset in the request, the update clears the field.
  const given = { ...request, expireTime: timeOf(request.expireTime, Math.floor) };
  return Object.fromEntries(
    changed.map(({ localName }) => [localName, given[localName as keyof UserGroupChange] ?? null]),
  );
}
