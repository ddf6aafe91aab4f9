import { ErrorInfoSchema } from "../../../gen/google/rpc/error_details_pb.ts";
import {
  type DeleteUserGroupRequest,
  ImportMode,
  type ImportUserGroupsRequest,
} from "../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import {
  type ImportedUserGroup as ImportedMessage,
  type ImportResult,
  type ImportResult_Failure,
  ImportResult_Outcome as Outcome,
} from "../../../gen/usergroup/admin/v1/user_group_pb.ts";
import { type EnvironmentName, environmentPath } from "../../domain/environment.ts";
import { type DomainError, TokenNotImportable } from "../../domain/errors.ts";
import type { ImportOutcome, UserGroupRange } from "../../domain/store.ts";
import { USER_GROUP_PREFIX } from "../../domain/token.ts";
import { EXPIRED, type ImportOptions, type Suspension, type UserGroupTarget } from "../../domain/user-group.ts";
import { credentialCheck } from "../credentials.ts";
import { invalidField, toCallError } from "../errors.ts";
import { graceMsOf, groupFromMessage, timeOf, timestamp, userGroupMessage } from "../messages.ts";
import { sessionMessage, viewerOf } from "../viewers.ts";
import { environmentNameMessage, userGroupInfoMessage } from "./messages.ts";
import {
  type AdminDeps,
  type AdminRpcs,
  environmentRpc,
  nextPageToken,
  type PageOf,
  pageRequest,
  type Scope,
} from "./requests.ts";

export function userGroupRpcs(deps: AdminDeps) {
  const { environments, userGroups, sessions, userGroupAdmin, auditTrail, logger, metrics } = deps;
  const isCredential = credentialCheck(deps.authenticator);
  const inEnvironment = environmentRpc(environments);
  return {
    listUserGroups: inEnvironment(async (environment, request) => {
      const { range, scope } = userGroupPage("ListUserGroups", environment, request);
      const { items, next } = await userGroupAdmin.list(environment, range);
      return { userGroups: items.map(userGroupInfoMessage), nextPageToken: nextPageToken(next, scope) };
    }),

    lookupUserGroup: inEnvironment(async (environment, { userGroupId }) => {
      return { userGroup: userGroupInfoMessage(await userGroupAdmin.lookUp(environment, userGroupId)) };
    }),

    lookupUserGroupToken: inEnvironment(async (environment, { token }) => {
      const { viewer, claims } = await viewerOf({ userGroups, sessions }, environment, { token });
      const group = await userGroupAdmin.lookUp(environment, viewer.providedId);
      return {
        userGroup: userGroupInfoMessage(group),
        environment: environmentNameMessage(environment),
        tokenExpireTime: timestamp(viewer.tokenExpireTime),
        session: claims && sessionMessage(claims),
      };
    }),

    deleteUserGroup: inEnvironment(async (environment, request, call) => {
      await userGroupAdmin.delete(environment, deletionTarget(request), request.etag, call);
      return {};
    }),

    suspendUserGroup: inEnvironment(async (environment, { userGroupId, reason, message, until }, call) => {
      if (reason === EXPIRED) throw invalidField("reason", `must not be ${EXPIRED}: set expire_time instead`);
      // Round up, so that the suspension never ends too early.
      const suspension = { reason, message, until: timeOf(until, Math.ceil) };
      return {
        userGroup: userGroupInfoMessage(await userGroupAdmin.suspend(environment, userGroupId, suspension, call)),
      };
    }),

    resumeUserGroup: inEnvironment(async (environment, { userGroupId }, call) => {
      return { userGroup: userGroupInfoMessage(await userGroupAdmin.resume(environment, userGroupId, call)) };
    }),

    revokeUserGroupTokens: inEnvironment(async (environment, { userGroupId, requestId, previousTokenTtl }, call) => {
      const revocation = { graceMs: graceMsOf(previousTokenTtl), requestId };
      const group = await userGroupAdmin.revokeTokens(environment, userGroupId, revocation, call);
      return { userGroup: userGroupInfoMessage(group) };
    }),

    revokeViewerSessions: inEnvironment(async (environment, { userGroupId: providedId, viewerId }, call) => {
      await userGroupAdmin.endSessions(environment, { providedId, viewerId: viewerId || undefined }, call);
      return {};
    }),

    /** If the page contains tokens, first stores an audit event. If the event cannot be stored, the call fails. */
    exportUserGroups: inEnvironment(async (environment, request, call) => {
      const { includeTokens } = request;
      const { range, scope } = userGroupPage("ExportUserGroups", environment, request);
      const { items, next, snapshotTime } = await userGroupAdmin.export(environment, range);
      if (includeTokens && items.length > 0) {
        const exported = { providedIdPrefix: range.prefix, count: items.length };
        await auditTrail.recordExport(environment, exported, call);
      }
      return {
        userGroups: items.map((group) => userGroupMessage(group, environment, includeTokens ? group.token : "")),
        nextPageToken: nextPageToken(next, scope),
        snapshotTime: timestamp(snapshotTime),
      };
    }),

    /** Succeeds even if some groups cannot be imported. The results contain an error for each of these groups. */
    importUserGroups: inEnvironment(async (environment, request, call) => {
      requireDifferent(request.userGroups);
      const given = request.userGroups.map((group) => ({
        ...groupFromMessage(group.providedId, group),
        token: group.token,
        suspension: suspensionOf(group),
      }));
      // The store checks the tokens that have the prefix of this service. Check only the other tokens here.
      const importable = new Set(
        given.filter(({ token = "" }) => token.startsWith(USER_GROUP_PREFIX) || !isCredential(token)),
      );
      const options = optionsOf(request);
      const imported = (await userGroupAdmin.import(environment, [...importable], options, call)).values();
      const failed = { outcome: "failed", error: new TokenNotImportable() } as const;
      const outcomes = given.map((group) =>
        importable.has(group) ? (imported.next().value as ImportOutcome) : failed,
      );
      const failures: { [reason: string]: number } = {};
      for (const outcome of request.validateOnly ? [] : outcomes) {
        const { reason } = outcome.outcome === "failed" ? outcome.error : { reason: undefined };
        metrics.imported.inc({ result: reason ?? outcome.outcome });
        if (reason !== undefined) failures[reason] = (failures[reason] ?? 0) + 1;
      }
      if (Object.keys(failures).length > 0) {
        logger.warn({ ...call.logFields(), failures }, "user groups were not imported");
      }
      return { results: outcomes.map((outcome, i) => resultMessage(given[i]?.providedId ?? "", outcome)) };
    }),
  } satisfies Partial<AdminRpcs>;
}

/**
 * Returns the suspension of an imported group. Returns undefined if the reason is `EXPIRED`, because such a suspension
 * follows from the expiry time of the group.
 */
function suspensionOf({ suspension }: ImportedMessage): Suspension | undefined {
  if (!suspension || suspension.reason === EXPIRED) return undefined;
  const { reason, message, suspendTime, until } = suspension;
  return {
    reason,
    message,
    suspendTime: timeOf(suspendTime, Math.floor) ?? Date.now(),
    until: timeOf(until, Math.ceil),
  };
}

function deletionTarget({ userGroupId: providedId, currentToken: token }: DeleteUserGroupRequest): UserGroupTarget {
  return token === "" ? { by: "id", providedId } : { by: "token", token };
}

/** @throws InvalidPageToken */
function userGroupPage(
  method: string,
  environment: EnvironmentName,
  request: PageOf & { readonly providedIdPrefix: string; readonly nameContains?: string },
): { readonly range: UserGroupRange; readonly scope: Scope } {
  const { providedIdPrefix: prefix, nameContains = "" } = request;
  const scope = [method, environmentPath(environment), prefix, ...(nameContains === "" ? [] : [nameContains])];
  return { range: { ...pageRequest(request, scope), prefix, nameContains }, scope };
}

const OUTCOMES: { readonly [outcome in ImportOutcome["outcome"]]: Outcome } = {
  created: Outcome.CREATED,
  updated: Outcome.UPDATED,
  unchanged: Outcome.UNCHANGED,
  "token-newer": Outcome.TOKEN_NEWER,
  suspended: Outcome.SUSPENDED,
  failed: Outcome.FAILED,
};

/** The accepted difference between the clocks of the service and a caller, in milliseconds. */
const CLOCK_SLACK_MS = 5000;

function optionsOf(request: ImportUserGroupsRequest): ImportOptions {
  const { mode, userGroups, replaceNewerTokens, previousTokenTtl, validateOnly } = request;
  const time = timeOf(request.snapshotTime);
  if (time === undefined && userGroups.some(({ token }) => token !== undefined)) {
    throw invalidField("snapshot_time", "is required if the request contains tokens: set the time of the export");
  }
  if (time !== undefined && time > Date.now() + CLOCK_SLACK_MS) {
    throw invalidField("snapshot_time", "must not be in the future");
  }
  return {
    mode: mode === ImportMode.UPSERT ? "upsert" : "create-only",
    snapshotTime: Math.floor(Math.min(time ?? 0, Date.now())),
    replaceNewerTokens,
    graceMs: graceMsOf(previousTokenTtl),
    validateOnly,
  };
}

/**
 * Refuses an import if two groups have the same id or the same token. Also refuses an import that contains a token as
 * the id or name of a group.
 */
function requireDifferent(groups: readonly ImportedMessage[]): void {
  const ids = new Set<string>();
  const tokens = new Set<string>();
  for (const [i, { providedId, token }] of groups.entries()) {
    if (ids.has(providedId)) throw invalidField(`user_groups[${i}].provided_id`, "must be unique in a request");
    if (token !== undefined && tokens.has(token))
      throw invalidField(`user_groups[${i}].token`, "must be unique in a request");
    ids.add(providedId);
    if (token !== undefined) tokens.add(token);
  }
  for (const [i, { providedId, name }] of groups.entries()) {
    for (const [field, text] of Object.entries({ provided_id: providedId, name }))
      if (text !== undefined && tokens.has(text))
        throw invalidField(`user_groups[${i}].${field}`, "must not be the token of a group of this import");
  }
}

function resultMessage(providedId: string, outcome: ImportOutcome): ImportResult {
  const isFailed = outcome.outcome === "failed";
  return {
    $typeName: "usergroup.admin.v1.ImportResult",
    providedId,
    outcome: OUTCOMES[outcome.outcome],
    failure: isFailed ? failureMessage(outcome.error) : undefined,
    changedFields: isFailed ? [] : [...outcome.changedFields],
  };
}

/** Converts the error of one group to a message that has the fields of a call's error. */
function failureMessage(failure: DomainError): ImportResult_Failure {
  // Only operators may import groups, so the message may contain details for operators.
  const error = toCallError(failure, { isForOperator: true });
  const [info] = error.findDetails(ErrorInfoSchema);
  return {
    $typeName: "usergroup.admin.v1.ImportResult.Failure",
    code: error.code,
    reason: info?.reason ?? "",
    message: error.rawMessage,
    outcome: info?.metadata["outcome"] ?? "",
  };
}
