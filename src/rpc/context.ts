import { Code, ConnectError, type ContextValues, createContextKey } from "@connectrpc/connect";
import type { Principal } from "../auth/authenticator.ts";

/** How a call reached the service, as metrics name it. */
export type WireProtocol = "grpc" | "grpc-web" | "connect" | "rest";

/** The protocol of the call; set by the transport. */
export const kProtocol = createContextKey<WireProtocol>("connect", { description: "wire protocol" });

/** Who is calling; set by admission, or else by the authentication interceptor. */
export const kPrincipal = createContextKey<Principal | undefined>(undefined, { description: "principal" });

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
