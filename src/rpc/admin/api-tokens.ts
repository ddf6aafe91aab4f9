import { durationFromMs, type Timestamp } from "@bufbuild/protobuf/wkt";
import {
  LookupApiTokenResponse_Source as Source,
  type UpdateApiTokenRequest,
  UpdateApiTokenRequestSchema,
} from "../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import type { Principal } from "../../auth/api-tokens.ts";
import type { ApiTokenChange } from "../../domain/api-token.ts";
import { environmentPath } from "../../domain/environment.ts";
import { ApiTokenNotFound } from "../../domain/errors.ts";
import type { Role } from "../../domain/role.ts";
import { apiTokenDigest, environmentNumberOf, USER_GROUP_PREFIX } from "../../domain/token.ts";
import { callOf } from "../call-context.ts";
import { invalidField } from "../errors.ts";
import { graceMsOf, maskedFields, timeOf, timestamp } from "../messages.ts";
import { apiTokenMessage, environmentNameMessage, roleFromMessage, settingsTokenMessage } from "./messages.ts";
import { type AdminDeps, type AdminRpcs, environmentRpc, nextPageToken, pageRequest } from "./requests.ts";

const UPDATED_FIELDS = ["display_name", "expire_time"] as const;

/** Only the responses of CreateApiToken and RotateApiToken contain a token. */
export function apiTokenRpcs({ environments, apiTokens, authenticator, rotationGraceMs }: AdminDeps) {
  const inEnvironment = environmentRpc(environments);
  const lookUp = async (token: string) => {
    const fixed = authenticator.ofSettings(token);
    if (fixed) {
      const source = fixed.role === "root" ? Source.ADMIN_TOKEN : Source.API_TOKENS;
      return { apiToken: settingsTokenMessage(fixed), environment: fixed.environment, source };
    }
    const number = environmentNumberOf(token);
    const found = number === undefined ? undefined : await apiTokens.find({ number, digest: apiTokenDigest(token) });
    if (!found) throw new ApiTokenNotFound();
    const { apiToken, environment, isReplaced: replaced } = found;
    return { apiToken: apiTokenMessage(apiToken), environment, source: Source.ISSUED, replaced };
  };
  return {
    async getCaller(_request, { values }) {
      const { id, displayName, role, environment, expireTime } = callOf(values).caller;
      return {
        apiTokenId: id,
        displayName,
        role,
        environment: environment && environmentNameMessage(environment),
        expireTime: timestamp(expireTime),
        rotationGrace: durationFromMs(rotationGraceMs),
      };
    },

    createApiToken: inEnvironment(async (environment, request, call) => {
      const { caller } = call;
      const created = {
        displayName: request.displayName,
        // The role is never undefined, because validation has refused a request that has no role.
        role: roleFromMessage(request.role) as Role,
        expireTime: request.expireTime ? expiryOf(request.expireTime, caller) : caller.expireTime,
      };
      const { apiToken, token } = await apiTokens.create(environment, created, call);
      return { apiToken: apiTokenMessage(apiToken), token };
    }),

    listApiTokens: inEnvironment(async (environment, request) => {
      const filter = {
        creator: request.creator || undefined,
        role: roleFromMessage(request.role),
        usedSince: timeOf(request.usedSince),
        unusedSince: timeOf(request.unusedSince),
      };
      const scope = ["ListApiTokens", environmentPath(environment), ...Object.values(filter).map(String)];
      const { items, next } = await apiTokens.list(environment, filter, pageRequest(request, scope));
      return { apiTokens: items.map(apiTokenMessage), nextPageToken: nextPageToken(next, scope) };
    }),

    async lookupApiToken({ token }, { values }) {
      if (token.startsWith(USER_GROUP_PREFIX))
        throw invalidField("token", "must be an API token; use LookupUserGroupToken for a user group token");
      const { environment, ...found } = await lookUp(token);
      const { environment: own } = callOf(values).caller;
      if (own && !(environment && environmentPath(environment) === environmentPath(own))) throw new ApiTokenNotFound();
      return { ...found, environment: environment && environmentNameMessage(environment) };
    },

    updateApiToken: inEnvironment(async (environment, request, call) => {
      const change = changeOf(request, call.caller);
      const apiToken = await apiTokens.update(environment, request.apiTokenId, change, call);
      return { apiToken: apiTokenMessage(apiToken) };
    }),

    rotateApiToken: inEnvironment(async (environment, { apiTokenId, previousTokenTtl }, call) => {
      const graceMs = graceMsOf(previousTokenTtl);
      const rotation = { graceMs, notBeyond: call.caller.expireTime };
      const { apiToken, token } = await apiTokens.rotate(environment, apiTokenId, rotation, call);
      return { apiToken: apiTokenMessage(apiToken), token };
    }),

    revokeApiToken: inEnvironment(async (environment, { apiTokenId, revokeIssued: issued }, call) => {
      return { revokedCount: await apiTokens.revoke(environment, apiTokenId, call, { issued }) };
    }),
  } satisfies Partial<AdminRpcs>;
}

function changeOf(request: UpdateApiTokenRequest, caller: Principal): ApiTokenChange {
  const fields = maskedFields(UpdateApiTokenRequestSchema, request, UPDATED_FIELDS);
  const { displayName, expireTime } = request;
  if (fields.includes("display_name") && displayName === "") throw invalidField("display_name", "must not be empty");
  return {
    ...(fields.includes("display_name") && { displayName }),
    ...(fields.includes("expire_time") && { expireTime: expiryOf(expireTime, caller) ?? null }),
  };
}

/**
 * Converts the requested expiry time of an API token to milliseconds since 1970. Undefined if the API token never
 * expires.
 *
 * @throws ConnectError InvalidArgument if the API token would expire later than the API token of the caller
 */
function expiryOf(time: Timestamp | undefined, { expireTime }: Principal): number | undefined {
  const end = timeOf(time);
  if (expireTime !== undefined && (end ?? Number.POSITIVE_INFINITY) > expireTime) {
    const latest = new Date(expireTime).toISOString();
    throw invalidField("expire_time", `must not be later than ${latest}, when the API token of the caller expires`);
  }
  return end === undefined ? undefined : Math.floor(end);
}
