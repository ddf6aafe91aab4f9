import { hash } from "node:crypto";
import { Code, type HandlerContext, type ServiceImpl } from "@connectrpc/connect";
import type { AdminService } from "../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import type { EnvironmentName as EnvironmentNameMessage } from "../../../gen/usergroup/admin/v1/environment_pb.ts";
import type { ApiTokens, Principal } from "../../auth/api-tokens.ts";
import type { ApiTokenStore } from "../../domain/api-token.ts";
import type { Network } from "../../domain/client-address.ts";
import { type Environment, type EnvironmentName, environmentPath } from "../../domain/environment.ts";
import { InvalidPageToken } from "../../domain/errors.ts";
import type { PageRequest } from "../../domain/page.ts";
import type {
  AuditStore,
  EnvironmentStore,
  EventStore,
  UserGroupAdminStore,
  UserGroupStore,
} from "../../domain/store.ts";
import type { TokenKeyStore } from "../../domain/token-key.ts";
import type { ViewerSessionStore } from "../../domain/viewer-session.ts";
import type { SendResult, WebhookStore, WebhookTarget } from "../../domain/webhook.ts";
import type { HistoryAnswer, HistoryQuery } from "../../observability/history.ts";
import type { Logger } from "../../observability/log.ts";
import type { Metrics } from "../../observability/metrics.ts";
import type { SigningKeys } from "../../sessions/signing-keys.ts";
import type { ViewerSessions } from "../../sessions/viewer-sessions.ts";
import { type CallContext, callOf } from "../call-context.ts";
import { callError, invalidField } from "../errors.ts";
import { environmentNameFromMessage } from "./messages.ts";

export interface AdminDeps {
  readonly environments: EnvironmentStore;
  readonly apiTokens: ApiTokenStore;
  readonly authenticator: Pick<ApiTokens, "authenticate" | "ofSettings" | "isOfSettings">;
  readonly userGroups: UserGroupStore & ViewerSessionStore;
  readonly userGroupAdmin: UserGroupAdminStore;
  readonly auditTrail: AuditStore & EventStore;
  readonly tokenKeys: TokenKeyStore;
  readonly sessions: Pick<ViewerSessions, "resolve">;
  readonly signingKeys: Pick<SigningKeys, "list" | "rotate">;
  readonly webhooks: WebhookStore;
  readonly webhookAllow: readonly Network[];
  readonly sendTest: (environment: Environment, target: WebhookTarget) => Promise<SendResult>;
  /** Returns the samples of the last hour. Undefined if the supervisor does not answer. */
  readonly readHistory: (query: HistoryQuery) => Promise<HistoryAnswer | undefined>;
  /**
   * Accepts the current data in Redis after the service has refused this data, for example because Redis was emptied.
   */
  readonly acceptData: () => Promise<void>;
  readonly logger: Pick<Logger, "info" | "warn">;
  readonly metrics: Pick<Metrics, "imported" | "viewer">;
  /** The default grace period of a rotated user group token, in milliseconds. */
  readonly rotationGraceMs: number;
}

/** The implementation of AdminService. Each file of this directory implements the RPCs of one resource. */
export type AdminRpcs = ServiceImpl<typeof AdminService>;

/**
 * Returns the environment of a call of AdminService. If the caller uses an API token, this is the environment of the
 * token. If the caller uses `ADMIN_TOKEN`, this is the environment in the request.
 *
 * @throws ConnectError InvalidArgument or PermissionDenied, EnvironmentNotFound, or an error of the store
 */
export async function targetOf(
  environments: Pick<EnvironmentStore, "find">,
  { caller }: CallContext,
  named: EnvironmentNameMessage | undefined,
): Promise<Environment> {
  const name = targetName(caller, named);
  return caller.environment ?? environments.find(name);
}

/** Returns a function that creates an RPC. The RPC calls `serve` with the environment from `targetOf`. */
export function environmentRpc(environments: Pick<EnvironmentStore, "find">) {
  return <Request extends { readonly environment?: EnvironmentNameMessage }, Response>(
    serve: (environment: Environment, request: Request, call: CallContext) => Promise<Response>,
  ) =>
    async (request: Request, { values }: HandlerContext): Promise<Response> => {
      const call = callOf(values);
      return serve(await targetOf(environments, call, request.environment), request, call);
    };
}

/**
 * Returns the name of the environment of a call. Does not check that the environment exists.
 *
 * @throws ConnectError InvalidArgument or PermissionDenied
 */
export function targetName(
  { environment: own }: Principal,
  named: EnvironmentNameMessage | undefined,
): EnvironmentName {
  const name = named && environmentNameFromMessage(named);
  if (own) {
    const path = environmentPath(own);
    if (name === undefined || environmentPath(name) === path) return own;
    const message = `this API token has access only to its environment ${path}; omit environment or use ADMIN_TOKEN`;
    throw callError(Code.PermissionDenied, message, { reason: "OTHER_ENVIRONMENT" });
  }
  if (!name) throw invalidField("environment", "is required, because ADMIN_TOKEN has no environment");
  return name;
}

const DEFAULT_PAGE_SIZE = 100;

/** The length of the scope digest in a page token, in characters. */
const SCOPE_LENGTH = 12;

export interface PageOf {
  readonly pageSize: number;
  readonly pageToken: string;
}

/** The values that identify a list: method, environment and filter. */
export type Scope = readonly string[];

/**
 * Reads the page fields of a request (https://google.aip.dev/158). A page token contains the digest of the scope, and
 * the key of the last item on the previous page.
 *
 * @throws InvalidPageToken
 */
export function pageRequest({ pageSize, pageToken }: PageOf, scope: Scope): PageRequest {
  const size = pageSize === 0 ? DEFAULT_PAGE_SIZE : pageSize;
  if (pageToken === "") return { after: "", size };
  const after = Buffer.from(pageToken, "base64url").toString().slice(SCOPE_LENGTH);
  if (nextPageToken(after, scope) !== pageToken) throw new InvalidPageToken();
  return { after, size };
}

/** Returns the token of the next page. Empty if `next` is undefined. */
export function nextPageToken(next: string | undefined, scope: Scope): string {
  if (next === undefined) return "";
  const digest = hash("sha256", JSON.stringify(scope), "base64url").slice(0, SCOPE_LENGTH);
  return Buffer.from(digest + next).toString("base64url");
}
