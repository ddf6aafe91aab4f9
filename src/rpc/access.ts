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

/** Who may call a method: anybody, or who bears an API token. */
export type Access = "open" | "api-token";

/** The access of every method of a service; none can be left out. */
type AccessOf<S extends DescService> = readonly [S, { readonly [method in keyof S["method"]]: Access }];

function accessOf<S extends DescService>(...policy: AccessOf<S>): AccessOf<S> {
  return policy;
}

/** Who may call what. What is open tells nothing of any group. */
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

/** The methods of every service. */
export const METHODS: readonly DescMethod[] = [...ACCESS.keys()];

/** Whether a method may be called without an API token; one that the policy does not name may not. */
export function isOpen(method: DescMethod): boolean {
  return ACCESS.get(method) === "open";
}

/** A call, as far as access to it is concerned. */
type Head = Pick<Parameters<Parameters<Interceptor>[0]>[0], "method" | "header" | "contextValues">;

/**
 * Lets calls in by their header: finds out who is calling, for the call to know. Rejects with ConnectError
 * Unauthenticated, or StoreUnavailable.
 */
export function authorization(authenticator: Authenticator): (call: Head) => Promise<void> {
  return async ({ method, header, contextValues }) => {
    if (!isOpen(method)) contextValues.set(kPrincipal, await authenticate(authenticator, header));
  };
}

/** Sees to it that every call was let in, so that no way in is open that somebody forgot. */
export function authorizationInterceptor(authorize: ReturnType<typeof authorization>): Interceptor {
  return (next) => async (req) => {
    if (!req.contextValues.get(kPrincipal)) await authorize(req);
    return next(req);
  };
}
