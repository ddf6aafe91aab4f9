import type { DescMethod, DescService } from "@bufbuild/protobuf";
import type { Interceptor } from "@connectrpc/connect";
import { Health } from "../../gen/grpc/health/v1/health_pb.ts";
import { ServerReflection as ReflectionV1 } from "../../gen/grpc/reflection/v1/reflection_pb.ts";
import { ServerReflection as ReflectionV1Alpha } from "../../gen/grpc/reflection/v1alpha/reflection_pb.ts";
import { UserGroupService } from "../../gen/usergroup/v1/user_group_service_pb.ts";
import { ViewerService } from "../../gen/usergroup/v1/viewer_service_pb.ts";
import type { Authenticator } from "../auth/authenticator.ts";
import { kPrincipal } from "./context.ts";
import { authenticate } from "./credentials.ts";

/** Who may call a method: anyone, or only callers with an API token. */
export type Access = "open" | "api-token";

/** The access policy of a service; the type requires an entry for every method. */
type AccessOf<S extends DescService> = readonly [S, { readonly [method in keyof S["method"]]: Access }];

function accessOf<S extends DescService>(...policy: AccessOf<S>): AccessOf<S> {
  return policy;
}

/** The access policy of all services. Open methods reveal nothing about any group. */
const POLICY: readonly (readonly [DescService, { readonly [method: string]: Access }])[] = [
  accessOf(UserGroupService, {
    getUserGroup: "api-token",
    updateUserGroup: "api-token",
    rotateUserGroupToken: "api-token",
  }),
  accessOf(ViewerService, { resolveViewer: "api-token" }),
  accessOf(Health, { check: "open", list: "open", watch: "open" }),
  accessOf(ReflectionV1, { serverReflectionInfo: "open" }),
  accessOf(ReflectionV1Alpha, { serverReflectionInfo: "open" }),
];

const ACCESS: ReadonlyMap<DescMethod, Access> = new Map(
  POLICY.flatMap(([{ method }, access]) =>
    Object.entries(method).map(([name, desc]) => [desc, access[name] as Access]),
  ),
);

/** All methods of all services. */
export const METHODS: readonly DescMethod[] = [...ACCESS.keys()];

/** Whether a method may be called without an API token. A method that the policy does not name may not. */
export function isOpen(method: DescMethod): boolean {
  return ACCESS.get(method) === "open";
}

/** The parts of a call that authorization needs. */
type Head = Pick<Parameters<Parameters<Interceptor>[0]>[0], "method" | "header" | "contextValues">;

/**
 * Authorizes calls by their headers, and stores the principal in the context values. Rejects with ConnectError
 * Unauthenticated, or with StoreUnavailable.
 */
export function authorization(authenticator: Authenticator): (call: Head) => Promise<void> {
  return async ({ method, header, contextValues }) => {
    if (!isOpen(method)) contextValues.set(kPrincipal, await authenticate(authenticator, header));
  };
}

/** Authorizes every call that the transport has not authorized, so that no entry point can bypass authorization. */
export function authorizationInterceptor(authorize: ReturnType<typeof authorization>): Interceptor {
  return (next) => async (req) => {
    if (!req.contextValues.get(kPrincipal)) await authorize(req);
    return next(req);
  };
}
