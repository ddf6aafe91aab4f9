import type { Environment } from "../domain/environment.ts";

/** Who is calling: the environment that the API token is bound to, which alone decides what a call acts on. */
export interface Principal {
  readonly environment: Environment;
}

/** Tells who bears an API token. */
export interface Authenticator {
  /** The bearer of an API token; undefined when the token is unknown. @throws StoreUnavailable */
  authenticate(token: string): Promise<Principal | undefined>;
}
