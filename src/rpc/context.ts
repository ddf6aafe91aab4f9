import { Code, ConnectError, type ContextKey, type ContextValues } from "@connectrpc/connect";
import type { Principal } from "../auth/principal.ts";
import type { ChangeBy } from "../domain/audit.ts";
import { clientAddress, type Network } from "../domain/client-address.ts";
import type { Environment } from "../domain/environment.ts";
import { type Caller, originOf, withoutTokens } from "./credentials.ts";

/** The protocol of a call, as metrics name it. */
export type WireProtocol = "grpc" | "grpc-web" | "connect" | "rest";

/**
 * What the service knows of a call, in plain fields: the transport passes it on as the call's context values. For a change
 * it says who makes it, computed when it is asked: most calls of GetUserGroup make none.
 */
export class Call implements ContextValues, ChangeBy {
  /** `none` for a request that is not a call. */
  readonly protocol: WireProtocol | "none";
  /** The name of the RPC; set when the call begins to be observed, as its id is. */
  method = "";
  /** The id of the request as the caller knows it: it may have chosen one that holds a credential. */
  id = "";
  /** Who is calling; set by authorization. */
  principal: Principal | undefined;
  /** Who was calling when authorization denied the call, for the log alone. */
  denied: Principal | undefined;
  /** Where the call comes from, and whom to believe about it; set by authorization. */
  origin: Caller | undefined;
  trustedProxies: readonly Network[] | undefined;

  constructor(protocol: Call["protocol"]) {
    this.protocol = protocol;
  }

  /** Who is calling. @throws ConnectError Internal when the call did not pass authentication */
  get caller(): Principal {
    if (!this.principal) throw new ConnectError("the call was not authenticated", Code.Internal);
    return this.principal;
  }

  /**
   * The environment that the caller's API token is bound to.
   *
   * @throws ConnectError Internal when the call did not pass authorization, which lets only such callers in
   */
  get environment(): Environment {
    const { environment } = this.caller;
    if (!environment) throw new ConnectError("the call was not authorized", Code.Internal);
    return environment;
  }

  get actorId(): string {
    return this.caller.id;
  }

  get actorName(): string {
    return this.caller.displayName;
  }

  get role(): Principal["role"] {
    return this.caller.role;
  }

  get requestId(): string {
    return this.origin ? withoutTokens(this.id, this.origin.header) : this.id;
  }

  get peer(): string {
    return this.origin ? clientAddress(originOf(this.origin), this.trustedProxies ?? []) : "";
  }

  // Values of others, by their keys, as Connect keeps them.

  get<T>(key: ContextKey<T>): T {
    return key.id in this ? ((this as unknown as { readonly [id: symbol]: T })[key.id] as T) : key.defaultValue;
  }

  set<T>(key: ContextKey<T>, value: T): this {
    return Object.assign(this, { [key.id]: value });
  }

  delete(key: ContextKey<unknown>): this {
    delete (this as unknown as { [id: symbol]: unknown })[key.id];
    return this;
  }
}

/** The call of context values. @throws ConnectError Internal when they are not those of a call of this service */
export function callOf(values: ContextValues): Call {
  if (values instanceof Call) return values;
  throw new ConnectError("the call was not authenticated", Code.Internal);
}
