import { MAX_API_TOKENS } from "./api-token.ts";
import { MAX_ENDED_VIEWERS } from "./viewer-session.ts";
import { MAX_WEBHOOKS } from "./webhook.ts";

type FailureKind =
  | "NotFound"
  | "AlreadyExists"
  | "InvalidArgument"
  | "FailedPrecondition"
  | "Aborted"
  | "PermissionDenied"
  | "ResourceExhausted"
  | "OutOfRange"
  | "Unavailable"
  | "DataLoss";

/**
 * The outcome of a failed change. `not_made`: the change was not committed, and will not be committed. `unknown`: the
 * change may have been committed.
 */
export type ChangeOutcome = "not_made" | "unknown";

export abstract class DomainError extends Error {
  abstract readonly kind: FailureKind;
  /** The stable name of the error, for programs. */
  abstract readonly reason: string;
  /** The invalid field of the request. Undefined if the field varies, or if no field is invalid. */
  abstract readonly field: string | undefined;
  /** The outcome of the change. Undefined if the call makes no change, or if the class implies the outcome. */
  readonly outcome: ChangeOutcome | undefined = undefined;
}

/**
 * Creates the class of a failure. The `name` of its errors derives from `reason`, because a bundler may rename classes.
 *
 * @param row `text`: the message, with the cause and the remedy. If `text` is a function, the constructor has the
 *   parameters of this function. Otherwise, the only parameter is the cause. `field`: the value of `DomainError.field`
 */
function failure<Args extends readonly unknown[] = [cause?: unknown]>(
  kind: FailureKind,
  reason: string,
  { text, field }: { readonly text: string | ((...args: Args) => string); readonly field?: string },
) {
  const name = reason.toLowerCase().replace(/(?:^|_)(.)/g, (_, letter: string) => letter.toUpperCase());
  return class extends DomainError {
    override readonly name = name;
    readonly kind = kind;
    readonly reason = reason;
    readonly field = field;
    constructor(...args: Args) {
      const [message, cause] = typeof text === "string" ? [text, args[0]] : [text(...args)];
      super(message, cause === undefined ? undefined : { cause });
    }
  };
}

export class UserGroupNotFound extends failure("NotFound", "USER_GROUP_NOT_FOUND", {
  text: "the environment of the API token has no user group with this user_group_id; GetUserGroup creates the group if the API token has the role manage",
}) {}

/**
 * No group has this token as its current token. If the call resolves a viewer, the token is not in a grace period
 * either.
 */
export class TokenNotFound extends failure("NotFound", "TOKEN_NOT_FOUND", {
  text: (malformed?: boolean) =>
    malformed
      ? "this is an incomplete or mistyped user group token, or another kind of token; copy the token again"
      : "no user group of the environment has this token: the token was replaced or revoked, or belongs to another environment",
}) {}

/** The group is suspended, so viewers must not see the data of the group. */
export class UserGroupSuspended extends failure("FailedPrecondition", "USER_GROUP_SUSPENDED", {
  text: "the user group is suspended; show suspension_message to the viewer. An operator can end the suspension with ResumeUserGroup, or with a later expire_time",
}) {
  readonly suspensionMessage: string;
  constructor(suspensionMessage: string) {
    super();
    this.suspensionMessage = suspensionMessage;
  }
}

export class UserGroupExpired extends failure("FailedPrecondition", "USER_GROUP_EXPIRED", {
  text: "the expire_time of the user group has passed; set a later expire_time with UpdateUserGroup, or clear expire_time",
}) {}

export class ViewerSessionExpired extends failure("NotFound", "VIEWER_SESSION_EXPIRED", {
  text: "the viewer session has expired; create a new session with CreateViewerSession",
}) {}

export class ViewerSessionEnded extends failure("NotFound", "VIEWER_SESSION_ENDED", {
  text: "the viewer session was revoked: a call deleted the user group, replaced its token without a grace period, or revoked the session",
}) {}

export class ViewerSessionInvalid extends failure("NotFound", "VIEWER_SESSION_INVALID", {
  text: (why: string) => why,
}) {}

export class ViewerSessionTooLarge extends failure("InvalidArgument", "VIEWER_SESSION_TOO_LARGE", {
  text: (length: number, most: number) =>
    `the viewer session would have ${length} characters, but the limit is ${most}: request fewer property_keys, or shorter claims`,
}) {}

/** The group already has the maximum number of viewers whose sessions are revoked individually. */
export class TooManyEndedViewers extends failure("ResourceExhausted", "TOO_MANY_ENDED_VIEWERS", {
  text: `the sessions of ${MAX_ENDED_VIEWERS} viewers of the user group were revoked within an hour, which is the limit; leave out viewer_id to revoke the sessions of the whole group`,
}) {}

export class PublicUrlMissing extends failure("FailedPrecondition", "PUBLIC_URL_MISSING", {
  text: "PUBLIC_URL is not set, so the service cannot create or check viewer sessions: set PUBLIC_URL",
}) {}

export class SigningKeysChanged extends failure("Aborted", "SIGNING_KEYS_CHANGED", {
  text: "another call changed the signing keys at the same time; repeat the call",
}) {}

export class UserGroupExists extends failure("AlreadyExists", "USER_GROUP_EXISTS", {
  text: "the environment already has a user group with this id, and its values differ from the import; to replace the stored values, import with IMPORT_MODE_UPSERT",
}) {}

export class TokenTaken extends failure("AlreadyExists", "TOKEN_TAKEN", {
  text: "another user group of the environment has this token, as its current token or in a grace period; rotate or revoke the token of that group first",
}) {}

export class TokenNotImportable extends failure("InvalidArgument", "TOKEN_NOT_IMPORTABLE", {
  text: "this is an incomplete or mistyped user group token, or another credential; copy the token again, or omit the token to get a new token",
  field: "token",
}) {}

export class EtagMismatch extends failure("Aborted", "ETAG_MISMATCH", {
  text: "the user group has changed since this etag was read; read the user group again and repeat the change",
}) {}

/** A rotation was retried, but the token that the first call created has been replaced. */
export class TokenReplaced extends failure("Aborted", "TOKEN_REPLACED", {
  text: "the token that the first call with this request id created was replaced later; GetUserGroup returns the current token",
}) {}

export class RequestIdReused extends failure("InvalidArgument", "REQUEST_ID_REUSED", {
  text: "this request id was used in the last 24 hours with other parameters; use a new request id for a new request",
  field: "request_id",
}) {}

export class InvalidUpdateMask extends failure("InvalidArgument", "INVALID_UPDATE_MASK", {
  text: (...allowed: readonly string[]) => `update_mask may contain ${allowed.join(", ")}, or * alone`,
  field: "update_mask",
}) {}

export class EnvironmentNotFound extends failure("NotFound", "ENVIRONMENT_NOT_FOUND", {
  text: "no environment has this name and tag; CreateEnvironment creates the environment",
}) {}

export class EnvironmentExists extends failure("AlreadyExists", "ENVIRONMENT_EXISTS", {
  text: "an environment with this name and tag already exists; use this environment, or choose another name or tag",
}) {}

export class EnvironmentNotEmpty extends failure("FailedPrecondition", "ENVIRONMENT_NOT_EMPTY", {
  text: "the environment has user groups; delete the user groups first, or set force to delete all user groups",
}) {}

export class EnvironmentBeingDeleted extends failure("FailedPrecondition", "ENVIRONMENT_BEING_DELETED", {
  text: "the environment with this name and tag is being deleted; repeat DeleteEnvironment with force until done is true",
}) {}

export class ApiTokenNotFound extends failure("NotFound", "API_TOKEN_NOT_FOUND", {
  text: "the environment has no API token with this id; it may have been revoked",
}) {}

export class TooManyApiTokens extends failure("ResourceExhausted", "TOO_MANY_API_TOKENS", {
  text: `the environment has ${MAX_API_TOKENS} API tokens, which is the limit; revoke unused API tokens`,
}) {}

/** The API token of the caller may have been revoked before the call could create or rotate an API token. */
export class ApiTokenChanged extends failure("Aborted", "API_TOKEN_CHANGED", {
  text: "API tokens of the environment were revoked a moment ago, maybe also the API token of the caller; try again in 5 seconds",
}) {}

export class ApiTokenOutlivesCaller extends failure("PermissionDenied", "API_TOKEN_OUTLIVES_CALLER", {
  text: "an API token cannot rotate an API token that expires later; call with an API token that expires no earlier, or revoke the API token instead",
}) {}

export class WebhookNotFound extends failure("NotFound", "WEBHOOK_NOT_FOUND", {
  text: "the environment has no webhook with this id; ListWebhooks lists the existing webhooks",
}) {}

export class TooManyWebhooks extends failure("ResourceExhausted", "TOO_MANY_WEBHOOKS", {
  text: `the environment has ${MAX_WEBHOOKS} webhooks, which is the limit; delete unused webhooks`,
}) {}

export class WebhookUrlRefused extends failure("InvalidArgument", "WEBHOOK_URL_REFUSED", {
  text: (why: string) => `the URL of a webhook ${why}`,
  field: "url",
}) {}

export class EventTypeUnknown extends failure("InvalidArgument", "EVENT_TYPE_UNKNOWN", {
  text: (...known: readonly string[]) =>
    `event_types may contain ${known.join(", ")}; for all types, leave event_types empty, or use * alone`,
  field: "event_types",
}) {}

export class WebhookTestLimited extends failure("ResourceExhausted", "WEBHOOK_TEST_LIMITED", {
  text: (seconds: number) => `a webhook of the environment was tested a moment ago; try again in ${seconds} s`,
}) {}

export class InvalidPageToken extends failure("InvalidArgument", "INVALID_PAGE_TOKEN", {
  text: "page_token must be the next_page_token of the previous page, or empty for the first page",
  field: "page_token",
}) {}

/** The first event of the page was removed after the previous page was read. */
export class AuditEventsExpired extends failure("InvalidArgument", "AUDIT_EVENTS_EXPIRED", {
  text: "AUDIT_RETENTION or AUDIT_MAX_EVENTS removed the events of this page; start again with the first page",
  field: "page_token",
}) {}

export class EventCursorExpired extends failure("OutOfRange", "EVENT_CURSOR_EXPIRED", {
  text: "events after this cursor are missing: AUDIT_RETENTION or AUDIT_MAX_EVENTS removed them, Redis lost them, or the cursor belongs to another environment; start again with a snapshot, or from the beginning",
  field: "cursor",
}) {}

export class TooManyWatchers extends failure("ResourceExhausted", "TOO_MANY_WATCHERS", {
  text: (max: number, where: string) =>
    `${where} has ${max} streams of WatchEvents, which is the limit of one worker; close some streams, or try again later`,
}) {}

/** The key cannot be retired, because stored data needs the key, or may need the key. */
export class TokenKeyInUse extends failure("FailedPrecondition", "TOKEN_KEY_IN_USE", {
  text: (why: string) => `the key is in use: ${why}`,
  field: "token_key_id",
}) {}

export class DataNotAcceptable extends failure("FailedPrecondition", "DATA_NOT_ACCEPTABLE", {
  text: (why: string) => why,
}) {}

const STORE_FAULTS = {
  memory_full: "Redis refuses changes because its memory is full (OOM)",
  cannot_save: "Redis refuses changes because it cannot save to disk (MISCONF)",
  read_only: "Redis refuses changes because it is a read-only replica (READONLY)",
  too_few_replicas: "Redis refuses changes because too few replicas are connected (NOREPLICAS)",
  timeout: "Redis did not answer in time",
  not_connected: "there is no connection to Redis",
  loading: "Redis is loading its data (LOADING)",
  busy: "Redis is busy with a long script (BUSY)",
  cluster_down: "the Redis Cluster does not serve these keys (CLUSTERDOWN)",
  master_down: "Redis is a replica that has lost its master (MASTERDOWN)",
  data_replaced:
    "Redis does not contain the expected data: restore the data, or accept the data in Redis with ugs store accept",
  denied: "the Redis user lacks a permission (NOPERM)",
  refused: "Redis refused a command",
} as const;

export type StoreFault = keyof typeof STORE_FAULTS;

/**
 * The store did not answer in time, or refused the call. The change may have been committed before this error, but is
 * never committed afterwards.
 */
export class StoreUnavailable extends failure("Unavailable", "STORE_UNAVAILABLE", {
  text: "the store is unavailable; try again",
}) {
  override readonly outcome: ChangeOutcome | undefined;
  readonly fault: StoreFault | undefined;

  constructor(cause?: unknown, outcome?: ChangeOutcome, fault?: StoreFault) {
    super(cause);
    this.outcome = outcome;
    this.fault = fault;
  }

  get messageForOperators(): string {
    return this.fault === undefined ? this.message : `the store is unavailable: ${STORE_FAULTS[this.fault]}`;
  }
}

export class TooFewReplicas extends failure("Unavailable", "TOO_FEW_REPLICAS", {
  text: "the change is committed, but too few replicas confirmed it, so a failover may lose it; read the resource again",
}) {
  override readonly outcome = "unknown";
}

export class EnvironmentFull extends failure("ResourceExhausted", "ENVIRONMENT_FULL", {
  text: "the environment has used all its team ids; use another environment",
}) {}

/** A stored record was changed outside of the service, or its encryption key is missing. */
export class RecordUnreadable extends failure("DataLoss", "RECORD_UNREADABLE", {
  text: "a stored record cannot be read; ask the operator to check TOKEN_KEYS and the store",
}) {
  override readonly outcome: ChangeOutcome | undefined;
  /** @param outcome the outcome of the change. Undefined if the caller only reads */
  constructor(cause?: unknown, outcome?: ChangeOutcome) {
    super(cause);
    this.outcome = outcome;
  }
}
