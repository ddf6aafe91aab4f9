import type { Environment } from "../domain/environment.ts";

/** The authenticated caller. The environment that its API token is bound to alone decides what a call acts on. */
export interface Principal {
  readonly environment: Environment;
}

/** Authenticates API tokens. */
export interface Authenticator {
  /** The principal of an API token; undefined when the token is unknown. @throws StoreUnavailable */
  authenticate(token: string): Promise<Principal | undefined>;
}
