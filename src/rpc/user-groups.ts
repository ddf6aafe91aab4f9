import { durationMs } from "@bufbuild/protobuf/wkt";
import type { ServiceImpl } from "@connectrpc/connect";
import { isSession } from "@user-group-service/sessions";
import type { UpdateUserGroupRequest, UserGroupService } from "../../gen/usergroup/v1/user_group_service_pb.ts";
import type { ViewerService, ViewerSession } from "../../gen/usergroup/v1/viewer_service_pb.ts";
import { DomainError } from "../domain/errors.ts";
import type { UserGroupStore } from "../domain/store.ts";
import type { JsonObject, Rotation, UserGroupChange, Viewer } from "../domain/user-group.ts";
import type { ViewerSessionStore } from "../domain/viewer-session.ts";
import type { Metrics } from "../observability/metrics.ts";
import type { ViewerSessionClaims, ViewerSessions } from "../sessions/viewer-sessions.ts";
import { denial } from "./access.ts";
import { callOf } from "./call.ts";
import { invalidField } from "./errors.ts";
import { graceMsOf, maskedFields, TAG_MESSAGES, timestamp, userGroupMessage } from "./messages.ts";

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
    async rotateUserGroupToken({ group: target, previousTokenTtl, requestId }, { values }) {
      const call = callOf(values);
      // Rounded down, so that a grace never lasts longer than requested.
      const askedGraceMs = graceMsOf(previousTokenTtl);
      const rotation: Rotation = {
        target:
          target.case === "userGroupId"
            ? { by: "id", providedId: target.value }
            : { by: "token", token: target.value ?? "" },
        graceMs: askedGraceMs ?? defaultGraceMs,
        askedGraceMs,
        requestId: requestId || undefined,
      };
      const group = await store.rotate(call.environment, rotation, call);
      return { $typeName: "usergroup.v1.RotateUserGroupTokenResponse", userGroup: userGroupMessage(group) };
    },
  } satisfies ServiceImpl<typeof UserGroupService>;
}

/** What ViewerService depends on. */
interface ViewerParts {
  readonly store: UserGroupStore & ViewerSessionStore;
  readonly sessions: ViewerSessions;
  readonly metrics: Pick<Metrics, "viewer">;
}

/** ViewerService. Every call reads the store. */
export function viewerService({ store, sessions, metrics }: ViewerParts) {
  return {
    /** Returns the group of a user group token or a viewer session. */
    async resolveViewer({ token, audience }, { values }) {
      const { environment } = callOf(values);
      const by = isSession(token) ? "session" : "token";
      let resolved: { readonly viewer: Viewer; readonly claims?: ViewerSessionClaims };
      try {
        if (by === "session") resolved = await sessions.resolve(store, environment, { session: token, audience });
        else resolved = { viewer: await store.resolve(environment, token) };
      } catch (error) {
        metrics.viewer(by, error instanceof DomainError ? error.reason : "INTERNAL");
        throw error;
      }
      metrics.viewer(by);
      const { viewer, claims } = resolved;
      return {
        $typeName: "usergroup.v1.ResolveViewerResponse",
        teamId: BigInt(viewer.teamId),
        name: viewer.name,
        providedId: viewer.providedId,
        mapping: viewer.mapping,
        ...(viewer.properties !== undefined && { properties: viewer.properties }),
        apiEnvironmentTag: TAG_MESSAGES[viewer.environmentTag ?? "none"],
        ...(viewer.tokenExpireTime !== undefined && { tokenExpireTime: timestamp(viewer.tokenExpireTime) }),
        ...(claims && { session: sessionMessage(claims) }),
      };
    },

    /** Makes a viewer session, by the group's token or, where the caller's role allows that, by its id. */
    async createViewerSession(request, { values }) {
      const call = callOf(values);
      const { group, audience, ttl, viewerId, origin, propertyKeys, claims } = request;
      if (group.case === "userGroupId" && !call.mayRead)
        throw denial(call.role, { name: "CreateViewerSession by user_group_id" }, "read");
      const ttlMs = ttl && durationMs(ttl);
      if (ttlMs !== undefined && ttlMs > sessions.maxMs)
        throw invalidField("ttl", `must be ${sessions.maxMs / 1000} s at most, as VIEWER_SESSION_MAX says`);
      const session = await sessions.create(store, call.environment, {
        target:
          group.case === "userGroupId"
            ? { by: "id", providedId: group.value }
            : { by: "token", token: group.value ?? "" },
        ...{ audience, ttlMs, origin, propertyKeys, claims, viewerId: viewerId || undefined },
      });
      return {
        $typeName: "usergroup.v1.CreateViewerSessionResponse",
        session: session.text,
        id: session.id,
        expireTime: timestamp(session.expireTime),
        refreshTime: timestamp(session.refreshTime),
      };
    },
  } satisfies ServiceImpl<typeof ViewerService>;
}

function sessionMessage({ jti, aud, vid = "", origin = "", ext, iat, exp }: ViewerSessionClaims): ViewerSession {
  return {
    $typeName: "usergroup.v1.ViewerSession",
    ...{ id: jti, audience: aud, viewerId: vid, origin },
    ...(ext !== undefined && { claims: ext as JsonObject }),
    createTime: timestamp(iat * 1000),
    expireTime: timestamp(exp * 1000),
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
