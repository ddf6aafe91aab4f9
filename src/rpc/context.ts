import {
  Code,
  ConnectError,
  type ContextValues,
  createContextKey,
  createContextValues,
  type HandlerContext,
} from "@connectrpc/connect";
import type { Principal } from "../auth/principal.ts";
import type { ChangeBy } from "../domain/audit.ts";
import type { Environment } from "../domain/environment.ts";
import { withoutTokens } from "./credentials.ts";

/** The protocol of a call, as metrics name it. */
export type WireProtocol = "grpc" | "grpc-web" | "connect" | "rest";

/** The protocol of the call; set by the transport. */
export const kProtocol = createContextKey<WireProtocol>("connect", { description: "wire protocol" });

/** Who was calling when authorization denied the call, for the log alone. */
export const kDenied = createContextKey<Principal | undefined>(undefined, { description: "denied principal" });

/** The initial context values of a call. @param protocolName as the transport names it */
export function contextOf(protocolName: string): ContextValues {
  const values = createContextValues();
  return protocolName === "connect" ? values : values.set(kProtocol, protocolName as WireProtocol);
}

/** Who is calling; set by authorization. */
export const kPrincipal = createContextKey<Principal | undefined>(undefined, { description: "principal" });

/** Tells the address of the client, empty when it is not known; set by authorization. */
export const kClientAddress = createContextKey(() => "", { description: "client address" });

/** The id of the request; set by the interceptor that observes calls. */
export const kRequestId = createContextKey("", { description: "request id" });

/**
 * Who is calling.
 *
 * @throws ConnectError Internal when the call did not pass authentication
 */
export function principalOf(values: ContextValues): Principal {
  const principal = values.get(kPrincipal);
  if (!principal) throw new ConnectError("the call was not authenticated", Code.Internal);
  return principal;
}

/**
 * The environment that the caller's API token is bound to.
 *
 * @throws ConnectError Internal when the call did not pass authorization, which lets only such callers in
 */
export function environmentOf(values: ContextValues): Environment {
  const { environment } = principalOf(values);
  if (!environment) throw new ConnectError("the call was not authorized", Code.Internal);
  return environment;
}

/**
 * Who makes a change by a call.
 *
 * @throws ConnectError Internal when the call did not pass authentication
 */
export function changeBy(context: HandlerContext): ChangeBy {
  return new Caller(context);
}

/** Computes on demand what only changes need: most calls of GetUserGroup make none. */
class Caller implements ChangeBy {
  readonly method: string;
  readonly #principal: Principal;
  readonly #context: HandlerContext;

  constructor(context: HandlerContext) {
    this.method = context.method.name;
    this.#principal = principalOf(context.values);
    this.#context = context;
  }

  get actorId(): string {
    return this.#principal.id;
  }

  get actorName(): string {
    return this.#principal.displayName;
  }

  get role(): Principal["role"] {
    return this.#principal.role;
  }

  /** Callers choose it, and a mistaken one may send a credential. */
  get requestId(): string {
    const { values, requestHeader } = this.#context;
    return withoutTokens(values.get(kRequestId), requestHeader);
  }

  get peer(): string {
    return this.#context.values.get(kClientAddress)();
  }
}
