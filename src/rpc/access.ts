import type { DescMethod, DescService } from "@bufbuild/protobuf";
import { Code, type ConnectError } from "@connectrpc/connect";
import type { CallHead } from "@user-group-service/transport";
import { RetryInfoSchema } from "../../gen/google/rpc/error_details_pb.ts";
import { Health } from "../../gen/grpc/health/v1/health_pb.ts";
import { ServerReflection as ReflectionV1 } from "../../gen/grpc/reflection/v1/reflection_pb.ts";
import { ServerReflection as ReflectionV1Alpha } from "../../gen/grpc/reflection/v1alpha/reflection_pb.ts";
import { AdminService } from "../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { UserGroupService } from "../../gen/usergroup/v1/user_group_service_pb.ts";
import { ViewerService } from "../../gen/usergroup/v1/viewer_service_pb.ts";
import type { ApiTokens, Authenticated, Principal } from "../auth/api-tokens.ts";
import type { RateLimiter } from "../auth/rate-limiter.ts";
import { clientKey, type Network } from "../domain/client-address.ts";
import { environmentPath } from "../domain/environment.ts";
import type { Role } from "../domain/role.ts";
import type { Limited } from "../domain/store.ts";
import type { RateLimitName } from "../observability/metrics.ts";
import { callError, untraced } from "./errors.ts";
import {
  type Caller,
  CREDENTIAL_HEADERS,
  callOf,
  type ObservedCall,
  originOf,
  tokenFromHeader,
} from "./observed-call.ts";

/**
 * Who may call a method: anyone (`open`); whoever authenticates (`any`); the bearers of API tokens with this role or a
 * higher one; or the bearer of `ADMIN_TOKEN` alone (`root`).
 */
export type Access = "open" | "any" | Role | "root";

/** The access policy of a service; the type requires an entry for every method. */
function policyOf<S extends DescService>(
  { method }: S,
  access: { readonly [name in keyof S["method"]]: Access },
): [DescMethod, Access][] {
  return Object.entries(method).map(([name, desc]) => [desc, access[name as keyof S["method"]]]);
}

/**
 * Who may call each method of all services; a method that is not in the table may be called by nobody. Open methods
 * reveal nothing about any group. What a role may do within a method: `mayCreate`, `mayRead`.
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
    revokeUserGroupTokens: "admin",
    revokeViewerSessions: "admin",
    importUserGroups: "admin",
    exportUserGroups: "admin",
    listAuditEvents: "admin",
    listTokenKeys: "root",
    reencryptUserGroupTokens: "root",
    retireTokenKey: "root",
    acceptStoreData: "root",
    listSigningKeys: "admin",
    rotateSigningKey: "root",
  }),
  ...policyOf(Health, { check: "open", list: "open", watch: "open" }),
  ...policyOf(ReflectionV1, { serverReflectionInfo: "open" }),
  ...policyOf(ReflectionV1Alpha, { serverReflectionInfo: "open" }),
]);

/** Whether a method may be called without an API token. */
export function isOpen(method: DescMethod): boolean {
  return ACCESS.get(method) === "open";
}

/** The order of the roles, and of what methods need. */
const RANK: { readonly [access in Access]: number } = {
  open: 0,
  any: 0,
  resolve: 1,
  read: 2,
  manage: 3,
  admin: 4,
  root: 5,
};

/** How callers are authenticated. */
export interface Authentication {
  readonly authenticator: Pick<ApiTokens, "authenticate">;
  readonly rateLimiters: RateLimiters;
  /** Whose `X-Forwarded-For` is believed. */
  readonly trustedProxies: readonly Network[];
}

/** What limits how often callers call, and fail to authenticate. */
export interface RateLimiters {
  /** Limits calls by the environment and id of their API token; undefined: they are not limited. */
  readonly tokens: RateLimiter | undefined;
  /**
   * Limits failures of authentication by the client's address, which many callers may share: only calls that fail are
   * refused. Undefined: they are not limited.
   */
  readonly failures: RateLimiter | undefined;
  /** Called with every refusal. */
  readonly onLimited: (name: RateLimitName) => void;
}

/** The headers of a refusal by a limit (draft-ietf-httpapi-ratelimit-headers), beside `Retry-After`. */
export const LIMIT_HEADERS = ["ratelimit", "ratelimit-policy"] as const;

const TEXTS: { readonly [name in RateLimitName]: { readonly reason: string; readonly what: string } } = {
  "api-token": { reason: "RATE_LIMITED", what: "this API token has made too many calls" },
  address: {
    reason: "TOO_MANY_FAILURES",
    what: "too many calls from this address had no valid API token",
  },
};

/** What authorization needs of a call. */
interface Head extends Caller, Pick<CallHead, "method" | "contextValues"> {}

/**
 * Makes the function that authorizes calls, and stores the principal in their context values: at once when the API token
 * need not be read. It throws ConnectError Unauthenticated, whose message says what to do, PermissionDenied or
 * ResourceExhausted; it rejects with these, or with the store's failure.
 */
export function authorization({ authenticator, rateLimiters, trustedProxies }: Authentication) {
  const limited = (name: RateLimitName, by: Limited) => {
    rateLimiters.onLimited(name);
    return limitedError(name, by);
  };

  // Failures are counted once the token was looked up: one caller's guesses must not lock out others at its address.
  const unauthenticated = (reason: keyof typeof FAULTS, caller: Caller) => {
    const by = rateLimiters.failures?.take(clientKey(originOf(caller), trustedProxies));
    if (by) return limited("address", by);
    const error = callError(Code.Unauthenticated, FAULTS[reason], { reason });
    error.metadata.set("www-authenticate", 'Token realm="user-group-service"');
    return error;
  };

  const requireAllowed = (principal: Authenticated, call: ObservedCall, head: Head) => {
    if (!principal) throw unauthenticated("API_TOKEN_UNKNOWN", head);
    call.bearer = principal;
    const { id, environment, role } = principal;
    // Root is not limited: whoever repairs something must not have to wait.
    const by = environment && rateLimiters.tokens?.take(`${environmentPath(environment)}/${id}`);
    if (by) throw limited("api-token", by);
    const needed = ACCESS.get(head.method);
    const isAllowed =
      needed !== undefined &&
      (role === "root" ? needed === "any" || RANK[needed] >= RANK.admin : RANK[role] >= RANK[needed]);
    if (!isAllowed) throw denial(role, head.method, needed);
    call.isAuthorized = true;
    call.principal = principal;
    call.mayCreate = RANK[role] >= RANK.manage;
    call.mayRead = RANK[role] >= RANK.read;
  };

  return (head: Head): void | Promise<void> => {
    const { header, method, contextValues } = head;
    const call = callOf(contextValues);
    if (ACCESS.get(method) === "open") {
      call.isAuthorized = true;
      return undefined;
    }
    call.origin = head;
    call.trustedProxies = trustedProxies;
    const value = header.get(CREDENTIAL_HEADERS[0]) ?? header.get(CREDENTIAL_HEADERS[1]);
    if (value === null) throw unauthenticated("API_TOKEN_MISSING", head);
    const token = tokenFromHeader(value);
    if (token === undefined) throw unauthenticated("API_TOKEN_MALFORMED", head);
    const found = authenticator.authenticate(token);
    return found instanceof Promise
      ? found.then((principal) => requireAllowed(principal, call, head))
      : requireAllowed(found, call, head);
  };
}

/** What is wrong with the credentials of a call, by its reason. */
const FAULTS = {
  API_TOKEN_MISSING: "the header is missing: Authorization: Token API_TOKEN",
  API_TOKEN_MALFORMED: "the Authorization header must be: Token API_TOKEN",
  API_TOKEN_UNKNOWN: "the API token is unknown, revoked or expired; check that it was copied whole",
};

/** Why a caller of a role may not call a method, or a part of it. @param needed undefined: nobody may */
export function denial(
  role: Principal["role"],
  { name }: Pick<DescMethod, "name">,
  needed: Access | undefined,
): ConnectError {
  if (needed === undefined)
    return callError(Code.PermissionDenied, `nobody may call ${name}`, { reason: "ROLE_TOO_LOW" });
  if (role === "root") {
    // Nothing in such a request names an environment, and a guess would act on the wrong one.
    const message = `ADMIN_TOKEN is bound to no environment, which ${name} acts on; use an API token of an environment, made with CreateApiToken`;
    return callError(Code.PermissionDenied, message, { reason: "ENVIRONMENT_TOKEN_REQUIRED" });
  }
  const orHigher = needed === "admin" ? "" : " or higher";
  const what = needed === "root" ? `ADMIN_TOKEN` : `an API token of role ${needed}${orHigher}`;
  const message = `${name} needs ${what}; this API token has the role ${role}`;
  const metadata = { required_role: needed, role };
  return callError(Code.PermissionDenied, message, { reason: "ROLE_TOO_LOW", metadata });
}

/** The error of a call that a limit refuses: when to try again, for programs and for proxies. */
function limitedError(name: RateLimitName, limited: Limited): ConnectError {
  const { max, windowSeconds } = limited.limit;
  // Whole seconds, because `Retry-After` has no others; later rather than too early.
  const seconds = Math.max(1, Math.ceil(limited.retryAfterMs / 1000));
  const { reason, what } = TEXTS[name];
  const message = `${what}: ${max} are let pass in ${windowSeconds} s; try again in ${seconds} s`;
  const error = untraced(() => callError(Code.ResourceExhausted, message, { reason }));
  error.details.push({ desc: RetryInfoSchema, value: { retryDelay: { seconds: BigInt(seconds), nanos: 0 } } });
  error.metadata.set("retry-after", String(seconds));
  error.metadata.set("ratelimit", `"${name}";r=0;t=${seconds}`);
  error.metadata.set("ratelimit-policy", `"${name}";q=${max};w=${windowSeconds}`);
  return error;
}
