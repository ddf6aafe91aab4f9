import type { Environment } from "../domain/environment.ts";

/** Who is calling: the environment that the API token is bound to, which alone decides what a call acts on. */
export interface Principal {
  readonly environment: Environment;
}

/** Tells who bears an API token. */
export interface Authenticator {
  /**
   * The bearer of an API token; undefined when nobody does. Answers without a
   * promise when it need not ask a store.
   *
   * @throws StoreUnavailable
   */
  authenticate(token: string): Principal | undefined | Promise<Principal | undefined>;
}
