import { isFieldSet } from "@bufbuild/protobuf";
import type { ServiceImpl } from "@connectrpc/connect";
import type { UpdateUserGroupRequest, UserGroupService } from "../../gen/usergroup/v1/user_group_service_pb.ts";
import type { UserGroupStore } from "../domain/store.ts";
import type { Rotation, UserGroupChange } from "../domain/user-group.ts";
import { CHANGEABLE, graceMsOf, groupFromMessage, groupTarget, maskedFields, userGroupMessage } from "./messages.ts";
import { callOf } from "./observed-call.ts";

const NAMES = CHANGEABLE.map(({ name }) => name);

/**
 * UserGroupService.
 *
 * @param defaultGraceMs how long a rotated token stays valid when the request does not say, in milliseconds
 */
export function userGroupService(store: UserGroupStore, defaultGraceMs: number) {
  return {
    /** Returns the stored group, or creates it from the request where the caller's role allows that. */
    async getUserGroup(request, { values }) {
      const call = callOf(values);
      const { userGroupId } = request;
      const wanted = groupFromMessage(userGroupId, request);
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
  const isNamed = new Set(maskedFields(request, NAMES, (_, name) => isSet(request, name)));
  const changed = CHANGEABLE.filter(({ name }) => isNamed.has(name));
  // A masked field that is unset is cleared.
  return Object.fromEntries(
    changed.map(({ localName }) => [localName, request[localName as keyof UserGroupChange] ?? null]),
  );
}

function isSet(request: UpdateUserGroupRequest, name: string): boolean {
  return CHANGEABLE.some((field) => field.name === name && isFieldSet(request, field));
}
