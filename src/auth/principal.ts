import type { Role } from "../domain/api-token.ts";
import type { Environment } from "../domain/environment.ts";

/** Who an authenticated caller is, for logs and for what it creates. None of it is secret. */
interface Identity {
  /** The id of its API token; `static-NAME` for the entry of that name in `API_TOKENS`, `root` for `ADMIN_TOKEN`. */
  readonly id: string;
  readonly displayName: string;
}

/** The bearer of an API token. The environment that its token is bound to alone decides what a call acts on. */
export interface BoundPrincipal extends Identity {
  readonly role: Role;
  readonly environment: Environment;
  /** When its API token ends, in milliseconds since 1970; undefined: it lasts until somebody ends it. */
  readonly expireTime: number | undefined;
}

/** The bearer of `ADMIN_TOKEN`, which is bound to no environment. */
export const ROOT = {
  id: "root",
  displayName: "root",
  role: "root",
  environment: undefined,
  expireTime: undefined,
} as const satisfies Identity & { readonly [name in keyof BoundPrincipal]: unknown };

/** The authenticated caller. */
export type Principal = BoundPrincipal | typeof ROOT;

/** The principal of an API token; undefined when the token is unknown. */
export type Authenticated = Principal | undefined;
