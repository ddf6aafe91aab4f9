import type { DescMethod, DescService } from "@bufbuild/protobuf";
import { Code, type ConnectError } from "@connectrpc/connect";
import type { Caller, CallHead, ClientOf, HeaderRecord } from "@user-group-service/transport";
import { RetryInfoSchema } from "../../gen/google/rpc/error_details_pb.ts";
import { Health } from "../../gen/grpc/health/v1/health_pb.ts";
import { ServerReflection as ReflectionV1 } from "../../gen/grpc/reflection/v1/reflection_pb.ts";
import { ServerReflection as ReflectionV1Alpha } from "../../gen/grpc/reflection/v1alpha/reflection_pb.ts";
import { AdminService } from "../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { UserGroupService } from "../../gen/usergroup/v1/user_group_service_pb.ts";
import { ViewerService } from "../../gen/usergroup/v1/viewer_service_pb.ts";
import type { ApiTokens, Authenticated, Principal } from "../auth/api-tokens.ts";
import type { RateLimiter } from "../auth/rate-limiter.ts";
import { environmentPath, formatEnvironmentName } from "../domain/environment.ts";
import { EnvironmentNotFound } from "../domain/errors.ts";
import { ROLES, type Role } from "../domain/role.ts";
import type { Limited } from "../domain/store.ts";
import type { RateLimitName } from "../observability/metrics.ts";
import { type CallContext, callOf } from "./call-context.ts";
import { apiTokenIn, credentialIn, tokenFromHeader } from "./credentials.ts";
import { callError, withoutStackTrace } from "./errors.ts";

/**
 * The callers that may call a method. `open` permits everyone. `any` permits every authenticated caller. A role permits
 * API tokens with this role or a higher role. `admin` also permits `ADMIN_TOKEN`. `root` permits only `ADMIN_TOKEN`.
 */
export type Access = "open" | "any" | Role | "root";

/** The type of `access` requires an entry for every method of the service. */
function policyOf<S extends DescService>(
  { method }: S,
  access: { readonly [name in keyof S["method"]]: Access },
): [DescMethod, Access][] {
  return Object.entries(method).map(([name, desc]) => [desc, access[name as keyof S["method"]]]);
}

/**
 * The access policy of each method. The service refuses calls of a method that has no entry. Open methods reveal
 * nothing about groups. If the required role depends on the request, the RPC checks the role with `hasRole`.
 */
export const ACCESS: ReadonlyMap<DescMethod, Access> = new Map([
  ...policyOf(UserGroupService, {
    getUserGroup: "read",
    updateUserGroup: "manage",
    rotateUserGroupToken: "manage",
  }),
  ...policyOf(ViewerService, { resolveViewer: "resolve", createViewerSession: "resolve" }),
  ...policyOf(AdminService, {
    createEnvironment: "root",
    getEnvironment: "admin",
    listEnvironments: "root",
    deleteEnvironment: "root",
    getCaller: "any",
    createApiToken: "admin",
    listApiTokens: "admin",
    lookupApiToken: "admin",
    updateApiToken: "admin",
    rotateApiToken: "admin",
    revokeApiToken: "admin",
    listUserGroups: "admin",
    lookupUserGroup: "admin",
    lookupUserGroupToken: "admin",
    deleteUserGroup: "admin",
    suspendUserGroup: "admin",
    resumeUserGroup: "admin",
    revokeUserGroupTokens: "admin",
    revokeViewerSessions: "admin",
    importUserGroups: "admin",
    exportUserGroups: "admin",
    listAuditEvents: "admin",
    watchEvents: "admin",
    listTokenKeys: "root",
    reencryptUserGroupTokens: "root",
    retireTokenKey: "root",
    acceptStoreData: "root",
    listSigningKeys: "admin",
    rotateSigningKey: "root",
    createWebhook: "admin",
    getWebhook: "admin",
    listWebhooks: "admin",
    updateWebhook: "admin",
    deleteWebhook: "admin",
    rotateWebhookSecret: "admin",
    testWebhook: "admin",
    listWebhookDeliveries: "admin",
    redeliverWebhook: "admin",
    getMetricsHistory: "admin",
  }),
  ...policyOf(Health, { check: "open", list: "open", watch: "open" }),
  ...policyOf(ReflectionV1, { serverReflectionInfo: "open" }),
  ...policyOf(ReflectionV1Alpha, { serverReflectionInfo: "open" }),
]);

export function isOpen(method: DescMethod): boolean {
  return ACCESS.get(method) === "open";
}

const RANK = Object.fromEntries(["open", "any", ...ROLES, "root"].map((access, i) => [access, i])) as {
  readonly [access in Access]: number;
};

export interface Authentication {
  readonly authenticator: Pick<ApiTokens, "authenticate">;
  readonly rateLimiters: RateLimiters;
}

export interface RateLimiters {
  /** Limits the calls of each API token. Undefined if `RATE_LIMIT` is off. */
  readonly tokens: RateLimiter | undefined;
  /**
   * Limits the failed authentications of each client address. Undefined if `AUTH_FAILURE_LIMIT` is off. Calls with a
   * valid token are never refused by this limit, because many callers may share an address.
   */
  readonly failures: RateLimiter | undefined;
  /** Called for every call that exceeds a limit. */
  readonly onLimited: (name: RateLimitName) => void;
}

/** Response headers of a rate-limited call, in addition to `Retry-After` (draft-ietf-httpapi-ratelimit-headers). */
export const LIMIT_HEADERS = ["ratelimit", "ratelimit-policy"] as const;

const TEXTS: { readonly [name in RateLimitName]: { readonly reason: string; readonly limited: string } } = {
  "api-token": { reason: "RATE_LIMITED", limited: "calls with this API token" },
  address: { reason: "TOO_MANY_FAILURES", limited: "calls without a valid API token from this address" },
};

type Head = Pick<CallHead, "method" | "headers" | "contextValues">;

/** Returns whether the caller's API token has this role or a higher role. */
export function hasRole({ role }: Pick<CallContext, "role">, needed: Role): boolean {
  return RANK[role] >= RANK[needed];
}

/**
 * Creates the function that authorizes a call and stores the caller in the `CallContext`. The function returns a
 * promise only if the API token is not cached. The function fails with ConnectError Unauthenticated, PermissionDenied
 * or ResourceExhausted, or with an error of `ApiTokens.authenticate`.
 */
export function authorization({ authenticator, rateLimiters }: Authentication) {
  const limited = (name: RateLimitName, by: Limited) => {
    rateLimiters.onLimited(name);
    return limitedError(name, by);
  };

  // Apply the limit only after the lookup of the API token. Otherwise, the failed guesses of one caller would block
  // valid API tokens from the same address.
  const unauthenticated = (reason: keyof typeof FAULTS, call: CallContext) => {
    const by = rateLimiters.failures?.take(call.clientKey);
    return by ? limited("address", by) : unauthenticatedError(reason);
  };

  const requireAllowed = (principal: Authenticated, call: CallContext, method: DescMethod) => {
    if (!principal) throw unauthenticated("API_TOKEN_UNKNOWN", call);
    call.bearer = principal;
    const { environment, role } = principal;
    // ADMIN_TOKEN is not limited, because an operator who repairs the service must not wait.
    const by = environment && rateLimiters.tokens?.take(`${environmentPath(environment)}/${principal.id}`);
    if (by) throw limited("api-token", by);
    requireRole(role, method);
    call.isAuthorized = true;
  };

  return ({ headers, method, contextValues }: Head): void | Promise<void> => {
    const call = callOf(contextValues);
    if (isOpen(method)) {
      call.isAuthorized = true;
      return undefined;
    }
    const value = credentialIn(headers);
    if (value === null) throw unauthenticated("API_TOKEN_MISSING", call);
    const token = tokenFromHeader(value);
    if (token === undefined) throw unauthenticated("API_TOKEN_MALFORMED", call);
    const found = authenticator.authenticate(token);
    return found instanceof Promise
      ? found.then((principal) => requireAllowed(principal, call, method))
      : requireAllowed(found, call, method);
  };
}

function requireRole(role: Principal["role"], method: DescMethod): void {
  const needed = ACCESS.get(method);
  const isAllowed =
    needed !== undefined &&
    (role === "root" ? needed === "any" || RANK[needed] >= RANK.admin : RANK[role] >= RANK[needed]);
  if (!isAllowed) throw denial(role, method, needed ?? "root");
}

function unauthenticatedError(reason: keyof typeof FAULTS): ConnectError {
  const error = callError(Code.Unauthenticated, FAULTS[reason], { reason });
  error.metadata.set("www-authenticate", 'Token realm="user-group-service"');
  return error;
}

/**
 * Checks whether the API token of a running stream is still valid. Returns a promise only if the token is not cached.
 * Fails with ConnectError Unauthenticated or PermissionDenied, with EnvironmentNotFound, or with an error of the store.
 */
export function authorizeAgain(
  authenticator: Pick<ApiTokens, "authenticate">,
  call: CallContext,
  method: DescMethod,
): void | Promise<void> {
  const check = (principal: Authenticated) => {
    if (!principal) throw unauthenticatedError("API_TOKEN_UNKNOWN");
    requireRole(principal.role, method);
    if (principal.environment?.number !== call.caller.environment?.number) throw new EnvironmentNotFound();
  };
  const found = authenticator.authenticate(apiTokenIn(call.received.headers) ?? "");
  return found instanceof Promise ? found.then(check) : check(found);
}

/**
 * Creates the function that returns the caller of a request, and the group of the caller. These groups are not user
 * groups. If a worker is busy, it serves the groups in turn. Within a group, it serves the callers in turn.
 *
 * - Each environment is a group, and each of its API tokens is a caller. So an environment with many API tokens gets no
 *   larger share of the worker than an environment with one API token.
 * - `ADMIN_TOKEN` is a separate group.
 * - If the API token of a request is missing or unknown, the client address is the caller. All client addresses are in
 *   one group, so calls from many addresses do not delay the calls of environments.
 */
export function callersOf(authenticator: Pick<ApiTokens, "lastOwner">, clientOf: ClientOf) {
  return (request: Pick<CallHead, "headers" | "peerAddress">): Caller => {
    const { headers } = request;
    const owner = lastOwner(authenticator, headers);
    if (!owner) return { group: "addresses", name: clientOf(request.peerAddress(), headers) ?? "" };
    const { environment, id } = owner;
    return { group: environment ? environmentPath(environment) : "root", name: id };
  };
}

/**
 * Creates a function that returns the name of the caller's environment. The function returns undefined for
 * `ADMIN_TOKEN`, and for an unknown API token.
 */
export function environmentsOf(authenticator: Pick<ApiTokens, "lastOwner">) {
  return (headers: HeaderRecord): string | undefined => {
    const environment = lastOwner(authenticator, headers)?.environment;
    return environment && formatEnvironmentName(environment);
  };
}

function lastOwner(authenticator: Pick<ApiTokens, "lastOwner">, headers: HeaderRecord): Principal | undefined {
  const token = apiTokenIn(headers);
  return token === undefined ? undefined : authenticator.lastOwner(token);
}

const FAULTS = {
  API_TOKEN_MISSING: "the Authorization header is missing; send Authorization: Token API_TOKEN",
  API_TOKEN_MALFORMED: "the Authorization header is malformed; send Authorization: Token API_TOKEN",
  API_TOKEN_UNKNOWN: "the API token is unknown, revoked or expired; check that you copied the whole token",
};

export function denial(role: Principal["role"], { name }: Pick<DescMethod, "name">, needed: Access): ConnectError {
  if (role === "root") {
    const message = `${name} needs an environment, and ADMIN_TOKEN has none; use an API token from CreateApiToken`;
    return callError(Code.PermissionDenied, message, { reason: "ENVIRONMENT_TOKEN_REQUIRED" });
  }
  const orHigher = needed === "admin" ? "" : " or higher";
  const what = needed === "root" ? `ADMIN_TOKEN` : `an API token of role ${needed}${orHigher}`;
  const message = `${name} needs ${what}; this API token has the role ${role}`;
  const metadata = { required_role: needed, role };
  return callError(Code.PermissionDenied, message, { reason: "ROLE_TOO_LOW", metadata });
}

function limitedError(name: RateLimitName, limited: Limited): ConnectError {
  const { max, windowSeconds } = limited.limit;
  // `Retry-After` has whole seconds. Round up, so that the caller does not retry too early.
  const seconds = Math.max(1, Math.ceil(limited.retryAfterMs / 1000));
  const { reason, limited: what } = TEXTS[name];
  const message = `too many ${what}: the limit is ${max} in ${windowSeconds} s; try again in ${seconds} s`;
  const error = withoutStackTrace(() => callError(Code.ResourceExhausted, message, { reason }));
  error.details.push({ desc: RetryInfoSchema, value: { retryDelay: { seconds: BigInt(seconds), nanos: 0 } } });
  error.metadata.set("retry-after", String(seconds));
  error.metadata.set("ratelimit", `"${name}";r=0;t=${seconds}`);
  error.metadata.set("ratelimit-policy", `"${name}";q=${max};w=${windowSeconds}`);
  return error;
}
