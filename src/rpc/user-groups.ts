import { type Duration, durationMs } from "@bufbuild/protobuf/wkt";
import type { HandlerContext } from "@connectrpc/connect";
import type {
  GetUserGroupRequest,
  GetUserGroupResponse,
  RotateUserGroupTokenRequest,
  RotateUserGroupTokenResponse,
  UpdateUserGroupRequest,
  UpdateUserGroupResponse,
} from "../../gen/usergroup/v1/user_group_service_pb.ts";
import type { ResolveViewerRequest, ResolveViewerResponse } from "../../gen/usergroup/v1/viewer_service_pb.ts";
import type { UserGroupStore } from "../domain/store.ts";
import type { RotationTarget, UserGroup, UserGroupChange } from "../domain/user-group.ts";
import { mayCreate } from "./access.ts";
import { callOf } from "./context.ts";
import { maskedFields, tagMessage, timestamp, userGroupMessage } from "./messages.ts";

/** GetUserGroup: returns the stored group, or creates it from the request where the caller's role allows that. */
export function getUserGroup(store: UserGroupStore) {
  return (request: GetUserGroupRequest, { values }: HandlerContext) => {
    const call = callOf(values);
    const { environment } = call;
    const { userGroupId } = request;
    if (!mayCreate(call.caller)) return store.get(environment, userGroupId).then((group) => answer(group, false));
    const group = {
      providedId: userGroupId,
      name: request.name ?? userGroupId,
      mapping: request.mapping,
      properties: request.properties,
    };
    return store.getOrCreate(environment, group, call).then(({ group, created }) => answer(group, created));
  };
}

function answer(group: UserGroup, newUserGroup: boolean): GetUserGroupResponse {
  return { $typeName: "usergroup.v1.GetUserGroupResponse", userGroup: userGroupMessage(group), newUserGroup };
}

type Field = keyof UserGroupChange;

const FIELDS: readonly Field[] = ["name", "mapping", "properties"];

/** UpdateUserGroup: a partial update (https://google.aip.dev/134). */
export function updateUserGroup(store: UserGroupStore) {
  return async (request: UpdateUserGroupRequest, context: HandlerContext) => {
    const { userGroupId, etag } = request;
    const environment = callOf(context.values).environment;
    const group = await store.update(environment, userGroupId, changeOf(request), etag, callOf(context.values));
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
    const group = await store.rotate(callOf(context.values).environment, rotation, callOf(context.values));
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

/** ResolveViewer: returns the group of a user group token. Every call reads the store. */
export function resolveViewer(store: UserGroupStore) {
  return async (request: ResolveViewerRequest, { values }: HandlerContext) => {
    const viewer = await store.resolve(callOf(values).environment, request.token);
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
