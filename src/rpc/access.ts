import type { DescMethod, DescService } from "@bufbuild/protobuf";
import { Code, type ConnectError, type Interceptor } from "@connectrpc/connect";
import type { CallHead } from "@user-group-service/transport";
import { Health } from "../../gen/grpc/health/v1/health_pb.ts";
import { ServerReflection as ReflectionV1 } from "../../gen/grpc/reflection/v1/reflection_pb.ts";
import { ServerReflection as ReflectionV1Alpha } from "../../gen/grpc/reflection/v1alpha/reflection_pb.ts";
import { AdminService } from "../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { UserGroupService } from "../../gen/usergroup/v1/user_group_service_pb.ts";
import { ViewerService } from "../../gen/usergroup/v1/viewer_service_pb.ts";
import type { Principal } from "../auth/principal.ts";
import type { Role } from "../domain/api-token.ts";
import { environmentPath } from "../domain/environment.ts";
import { type Call, callOf } from "./context.ts";
import { type Authentication, authenticate, type Caller, type CallerLimits, limitedError } from "./credentials.ts";
import { callError } from "./errors.ts";

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
 * The access policy of all services. Open methods reveal nothing about any group. What a role may do within a method:
 * `mayCreate`.
 */
const ACCESS: ReadonlyMap<DescMethod, Access> = new Map([
  ...policyOf(UserGroupService, {
    getUserGroup: "read",
    updateUserGroup: "manage",
    rotateUserGroupToken: "manage",
  }),
  ...policyOf(ViewerService, { resolveViewer: "resolve" }),
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
    deleteUserGroup: "admin",
    revokeUserGroupTokens: "admin",
    importUserGroups: "admin",
    exportUserGroups: "admin",
    listAuditEvents: "admin",
  }),
  ...policyOf(Health, { check: "open", list: "open", watch: "open" }),
  ...policyOf(ReflectionV1, { serverReflectionInfo: "open" }),
  ...policyOf(ReflectionV1Alpha, { serverReflectionInfo: "open" }),
]);

/** All methods of all services. */
export const METHODS: readonly DescMethod[] = [...ACCESS.keys()];

/** Who may call a method; undefined for a method that has no policy, which nobody may call. */
export function accessTo(method: DescMethod): Access | undefined {
  return ACCESS.get(method);
}

/** Whether a method may be called without an API token. A method that the policy does not name may not. */
export function isOpen(method: DescMethod): boolean {
  return accessTo(method) === "open";
}

/** Whether GetUserGroup creates a group for a caller, or only looks for it. */
export function mayCreate({ role }: Principal): boolean {
  return RANK[role] >= RANK.manage;
}

/** The order of the roles. */
const RANK: { readonly [role in Principal["role"]]: number } = { resolve: 0, read: 1, manage: 2, admin: 3, root: 4 };

/** The parts of a call that authorization needs. */
interface Head extends Caller, Pick<CallHead, "method" | "contextValues"> {}

/**
 * Authorizes calls by their headers, and stores the principal in the context values: at once when its API token need not
 * be read. Throws ConnectError Unauthenticated, PermissionDenied or ResourceExhausted; rejects with them, or with the
 * store's failure.
 */
export function authorization(authentication: Authentication): (head: Head) => void | Promise<void> {
  const { limits, trustedProxies } = authentication;
  return (head) => {
    if (isOpen(head.method)) return undefined;
    const call = callOf(head.contextValues);
    call.origin = head;
    call.trustedProxies = trustedProxies;
    const principal = authenticate(authentication, head);
    return principal instanceof Promise
      ? principal.then((known) => admit(known, call, head.method, limits))
      : admit(principal, call, head.method, limits);
  };
}

/** @throws ConnectError PermissionDenied, ResourceExhausted */
function admit(principal: Principal, call: Call, method: DescMethod, limits: CallerLimits): void {
  const error = denial(principal, method, limits);
  if (error) {
    call.denied = principal;
    throw error;
  }
  call.principal = principal;
}

/** Why a caller may not make a call: it has made too many, or has too low a role; undefined when it may. */
function denial(
  { id, environment, role }: Principal,
  method: DescMethod,
  { tokens, onLimited }: CallerLimits,
): ConnectError | undefined {
  // Root is not limited: whoever repairs something must not have to wait.
  const limited = environment && tokens?.take(`${environmentPath(environment)}/${id}`);
  if (limited) {
    onLimited("api-token");
    return limitedError("api-token", limited);
  }
  const { name } = method;
  const access = accessTo(method);
  if (access === undefined)
    return callError(Code.PermissionDenied, `nobody may call ${name}`, { reason: "ROLE_TOO_LOW" });
  if (access === "any" || access === "open") return undefined;
  if (RANK[role] < RANK[access]) {
    const orHigher = access === "admin" ? "" : " or higher";
    const needed = access === "root" ? `ADMIN_TOKEN` : `an API token of role ${access}${orHigher}`;
    const metadata = { required_role: access, role };
    const message = `${name} needs ${needed}; this API token has the role ${role}`;
    return callError(Code.PermissionDenied, message, { reason: "ROLE_TOO_LOW", metadata });
  }
  // Nothing in such a request names an environment, and a guess would act on the wrong one.
  if (role === "root" && RANK[access] < RANK.admin) {
    const message = `ADMIN_TOKEN is bound to no environment, which ${name} acts on; use an API token of an environment, made with CreateApiToken`;
    return callError(Code.PermissionDenied, message, { reason: "ENVIRONMENT_TOKEN_REQUIRED" });
  }
  return undefined;
}

/** Authorizes every call that the transport has not authorized, so that no entry point can bypass authorization. */
export function authorizationInterceptor(authorize: ReturnType<typeof authorization>): Interceptor {
  return (next) => (req) => {
    if (callOf(req.contextValues).principal) return next(req);
    const authorized = authorize(req);
    return authorized ? authorized.then(() => next(req)) : next(req);
  };
}
