import type { Role } from "../domain/api-token.ts";
import type { Environment } from "../domain/environment.ts";

/** Who an authenticated caller is, for logs and for what it creates. None of it is secret. */
interface Identity {
  /** The id of its API token; `static-N` for entry N of `API_TOKENS`, `root` for `ADMIN_TOKEN`. */
  readonly id: string;
  readonly displayName: string;
}

/** The bearer of an API token. The environment that its token is bound to alone decides what a call acts on. */
export interface BoundPrincipal extends Identity {
  readonly role: Role;
  readonly environment: Environment;
}

/** The bearer of `ADMIN_TOKEN`, which is bound to no environment. */
export interface RootPrincipal extends Identity {
  readonly role: "root";
  readonly environment: undefined;
}

/** The authenticated caller. */
export type Principal = BoundPrincipal | RootPrincipal;

/** The bearer of `ADMIN_TOKEN`. */
export const ROOT: RootPrincipal = { id: "root", displayName: "root", role: "root", environment: undefined };

/** An API token that this worker does not know, and was not allowed to look up. */
export const NOT_LOOKED_UP = "not-looked-up";

/** What is known of an API token: its principal; undefined when the token is unknown; or nothing yet. */
export type Authenticated = Principal | typeof NOT_LOOKED_UP | undefined;

/**
 * Whether an API token that was never seen to be good may be looked up in the store. Asked once a call, before that begins;
 * answers with a promise, which never rejects, when other look-ups have to end first.
 */
export type MayLookUp = () => boolean | Promise<boolean>;

/** Authenticates API tokens. */
export interface Authenticator {
  /**
   * Answers at once when it need not wait. Rejects with StoreUnavailable or RecordUnreadable.
   *
   * @param mayLookUp default: it may
   */
  authenticate(token: string, mayLookUp?: MayLookUp): Authenticated | Promise<Authenticated>;
}
