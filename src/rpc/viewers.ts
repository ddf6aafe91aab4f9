import { durationMs } from "@bufbuild/protobuf/wkt";
import type { ServiceImpl } from "@connectrpc/connect";
import type { ViewerService, ViewerSession } from "../../gen/usergroup/v1/viewer_service_pb.ts";
import type { Environment } from "../domain/environment.ts";
import { DomainError, UserGroupSuspended } from "../domain/errors.ts";
import type { LastResolveNotes, UserGroupStore } from "../domain/store.ts";
import type { JsonObject, Viewer } from "../domain/user-group.ts";
import type { ViewerSessionStore } from "../domain/viewer-session.ts";
import type { Metrics } from "../observability/metrics.ts";
import { isSession } from "../sessions/session.ts";
import type { ViewerSessionClaims, ViewerSessions } from "../sessions/viewer-sessions.ts";
import { denial, hasRole } from "./access.ts";
import { callOf } from "./call-context.ts";
import { invalidField } from "./errors.ts";
import { groupFieldsMessage, groupTarget, TAG_MESSAGES, timestamp } from "./messages.ts";

interface ViewerDeps {
  readonly userGroups: UserGroupStore & ViewerSessionStore;
  readonly sessions: ViewerSessions;
  readonly metrics: Pick<Metrics, "viewer">;
  readonly lastResolves: LastResolveNotes;
}

export function viewerService({ userGroups, sessions, metrics, lastResolves }: ViewerDeps) {
  return {
    async resolveViewer({ token, audience }, { values }) {
      const { environment } = callOf(values);
      const by = isSession(token) ? "session" : "token";
      let resolved: ResolvedViewer;
      try {
        resolved = await viewerOf({ userGroups, sessions }, environment, { token, audience });
        const { suspension } = resolved.viewer;
        if (suspension) throw new UserGroupSuspended(suspension.message);
      } catch (error) {
        metrics.viewer(by, error instanceof DomainError ? error.reason : "INTERNAL");
        throw error;
      }
      metrics.viewer(by);
      const { viewer, claims } = resolved;
      lastResolves.note(environment, viewer);
      return {
        $typeName: "usergroup.v1.ResolveViewerResponse",
        teamId: BigInt(viewer.teamId),
        providedId: viewer.providedId,
        ...groupFieldsMessage(viewer),
        apiEnvironmentTag: TAG_MESSAGES[environment.tag ?? "none"],
        tokenExpireTime: timestamp(viewer.tokenExpireTime),
        session: claims && sessionMessage(claims),
      };
    },

    /** If the request contains the id of the group instead of its token, the caller needs the role `read` or higher. */
    async createViewerSession(request, { values }) {
      const call = callOf(values);
      const { group, audience, ttl, viewerId, origin, propertyKeys, claims } = request;
      if (group.case === "userGroupId" && !hasRole(call, "read"))
        throw denial(call.role, { name: "CreateViewerSession by user_group_id" }, "read");
      const ttlMs = ttl && durationMs(ttl);
      if (ttlMs !== undefined && ttlMs > sessions.maxMs)
        throw invalidField("ttl", `must be at most ${sessions.maxMs / 1000} s (VIEWER_SESSION_MAX)`);
      const session = await sessions.create(userGroups, call.environment, {
        target: groupTarget(group),
        audience,
        ttlMs,
        origin,
        propertyKeys,
        claims,
        viewerId: viewerId || undefined,
      });
      lastResolves.note(call.environment, session.viewer);
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

interface ResolvedViewer {
  readonly viewer: Viewer;
  readonly claims?: ViewerSessionClaims;
}

/**
 * Finds the group of a user group token or of a viewer session, even if the group is suspended. If `audience` is not
 * empty, a session must have this audience.
 */
export async function viewerOf(
  { userGroups, sessions }: Pick<ViewerDeps, "userGroups"> & { readonly sessions: Pick<ViewerSessions, "resolve"> },
  environment: Environment,
  { token, audience = "" }: { readonly token: string; readonly audience?: string },
): Promise<ResolvedViewer> {
  if (isSession(token)) return sessions.resolve(userGroups, environment, { session: token, audience });
  return { viewer: await userGroups.resolve(environment, token) };
}

export function sessionMessage({ jti, aud, vid = "", origin = "", ext, iat, exp }: ViewerSessionClaims): ViewerSession {
  return {
    $typeName: "usergroup.v1.ViewerSession",
    id: jti,
    audience: aud,
    viewerId: vid,
    origin,
    ...(ext !== undefined && { claims: ext as JsonObject }),
    createTime: timestamp(iat * 1000),
    expireTime: timestamp(exp * 1000),
  };
}
