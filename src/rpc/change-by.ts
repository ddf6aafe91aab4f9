import type { HandlerContext } from "@connectrpc/connect";
import type { Principal } from "../auth/authenticator.ts";
import type { ChangeBy } from "../domain/audit.ts";
import { kClientAddress, kRequestId, principalOf } from "./context.ts";
import { withoutTokens } from "./credentials.ts";

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
