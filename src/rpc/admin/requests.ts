import { hash } from "node:crypto";
import { Code, type ContextValues, type ServiceImpl } from "@connectrpc/connect";
import type { AdminService } from "../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import type { EnvironmentName as EnvironmentNameMessage } from "../../../gen/usergroup/admin/v1/environment_pb.ts";
import type { ApiTokens } from "../../auth/api-tokens.ts";
import type { ApiTokenStore } from "../../domain/api-token.ts";
import { type Environment, type EnvironmentName, environmentPath } from "../../domain/environment.ts";
import { InvalidPageToken } from "../../domain/errors.ts";
import type { PageRequest } from "../../domain/page.ts";
import type {
  AuditStore,
  EnvironmentDeletion,
  EnvironmentStore,
  UserGroupAdminStore,
  UserGroupStore,
} from "../../domain/store.ts";
import type { TokenKeyStore } from "../../domain/token-key.ts";
import type { ViewerSessionStore } from "../../domain/viewer-session.ts";
import type { Logger } from "../../observability/log.ts";
import type { Metrics } from "../../observability/metrics.ts";
import type { SigningKeys } from "../../sessions/signing-keys.ts";
import type { ViewerSessions } from "../../sessions/viewer-sessions.ts";
import { callError, invalidField } from "../errors.ts";
import { callOf } from "../observed-call.ts";
import { environmentNameFromMessage } from "./messages.ts";

/** What AdminService depends on. */
export interface AdminDeps {
  readonly environments: EnvironmentStore;
  readonly environmentDeletion: EnvironmentDeletion;
  readonly apiTokens: ApiTokenStore;
  readonly authenticator: Pick<ApiTokens, "ofSettings" | "isOfSettings">;
  readonly userGroups: UserGroupStore & ViewerSessionStore;
  readonly userGroupAdmin: UserGroupAdminStore;
  readonly auditTrail: AuditStore;
  readonly tokenKeys: TokenKeyStore;
  readonly sessions: Pick<ViewerSessions, "resolve">;
  readonly signingKeys: Pick<SigningKeys, "list" | "rotate" | "forget">;
  /** Accepts what Redis holds. */
  readonly acceptData: () => Promise<void>;
  readonly logger: Pick<Logger, "info" | "warn">;
  readonly metrics: Pick<Metrics, "imported" | "viewer">;
  /** How long a rotated user group token stays valid by default, in milliseconds. */
  readonly rotationGraceMs: number;
}

/** The implementation of AdminService, one resource per file. */
export type AdminRpcs = ServiceImpl<typeof AdminService>;

/**
 * The environment that a call of AdminService acts on: that of the caller's API token, which the request need not name.
 * The bearer of `ADMIN_TOKEN` has to name one.
 *
 * @throws ConnectError InvalidArgument or PermissionDenied; EnvironmentNotFound, or as the store does
 */
export async function targetOf(
  environments: Pick<EnvironmentStore, "find">,
  values: ContextValues,
  named: EnvironmentNameMessage | undefined,
): Promise<Environment> {
  const name = targetName(values, named);
  return callOf(values).caller.environment ?? environments.find(name);
}

/** The name of that environment. @throws ConnectError InvalidArgument or PermissionDenied */
export function targetName(values: ContextValues, named: EnvironmentNameMessage | undefined): EnvironmentName {
  const { environment: own } = callOf(values).caller;
  const name = named && environmentNameFromMessage(named);
  if (own) {
    if (name && environmentPath(name) !== environmentPath(own)) throw otherEnvironment(environmentPath(own));
    return own;
  }
  if (!name) throw invalidField("environment", "must be set: ADMIN_TOKEN is bound to no environment");
  return name;
}

function otherEnvironment(own: string) {
  const message = `this API token may act on its own environment alone, ${own}; leave environment out, or use ADMIN_TOKEN`;
  return callError(Code.PermissionDenied, message, { reason: "OTHER_ENVIRONMENT" });
}

/** How many items a page has when the request does not say. */
const DEFAULT_PAGE_SIZE = 100;

/** How many characters of the digest of its list's scope a page token has. */
const SCOPE_LENGTH = 12;

/** Which page of a list a request asks for. */
export interface PageOf {
  readonly pageSize: number;
  readonly pageToken: string;
}

/** What tells a list from others with the same keys: its method, its environment, its filter. */
export type Scope = readonly string[];

/**
 * Reads which page is asked for (https://google.aip.dev/158). A page token is the key of the last item before the page,
 * behind a digest of the scope of the list where it has one.
 *
 * @param isKey whether a text may be a key of the list
 * @throws InvalidPageToken
 */
export function pageRequest(
  { pageSize, pageToken }: PageOf,
  isKey: (text: string) => boolean,
  scope?: Scope,
): PageRequest {
  const size = pageSize === 0 ? DEFAULT_PAGE_SIZE : pageSize;
  if (pageToken === "") return { after: "", size };
  const after = Buffer.from(pageToken, "base64url").toString().slice(digestOf(scope).length);
  if (!isKey(after) || nextPageToken(after, scope) !== pageToken) throw new InvalidPageToken();
  return { after, size };
}

/** The page token of what follows a key; empty when nothing does. */
export function nextPageToken(next: string | undefined, scope?: Scope): string {
  return next === undefined ? "" : Buffer.from(digestOf(scope) + next).toString("base64url");
}

function digestOf(scope: Scope | undefined): string {
  return scope === undefined ? "" : hash("sha256", JSON.stringify(scope), "base64url").slice(0, SCOPE_LENGTH);
}
