import { MAX_API_TOKENS } from "./api-token.ts";
import { MAX_ENDED_VIEWERS } from "./viewer-session.ts";

/** What kind of failure it is, by the name of its gRPC code. */
type FailureKind =
  | "NotFound"
  | "AlreadyExists"
  | "InvalidArgument"
  | "FailedPrecondition"
  | "Aborted"
  | "PermissionDenied"
  | "ResourceExhausted"
  | "Unavailable"
  | "DataLoss";

/** What became of a change that failed: it was not made and will not be, or it may have been made. */
export type ChangeOutcome = "not_made" | "unknown";

/** An expected failure of the domain. */
export abstract class DomainError extends Error {
  abstract readonly kind: FailureKind;
  /** A stable constant for programs. */
  abstract readonly reason: string;
  /** The field of the request that is at fault; undefined: it is not always the same one. */
  abstract readonly field: string | undefined;
  /** What became of a change; undefined: nothing was to be changed, or the kind tells. */
  readonly outcome: ChangeOutcome | undefined = undefined;
}

/**
 * Makes the class of a failure. Its name, for the log, is made of the reason, because a bundler may rename classes.
 *
 * @param row the text that the caller is told: when it happens, and what to do. Where it is a function, the class takes
 *   the arguments of it; else it takes the cause. `field` as of DomainError
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

/** No group of the environment has this id. */
export class UserGroupNotFound extends failure("NotFound", "USER_GROUP_NOT_FOUND", {
  text: "no user group has this user_group_id in the environment of the API token; GetUserGroup creates it for an API token of role manage",
}) {}

/** No group of the environment has this token as its current one (or, for a viewer, within its grace). */
export class TokenNotFound extends failure("NotFound", "TOKEN_NOT_FOUND", {
  text: (malformed?: boolean) =>
    malformed
      ? "this is not a well-formed user group token: it was cut or mistyped, or is another kind of token; copy it again"
      : "no user group of the environment has this token; it was rotated, mistyped, or belongs to another environment",
}) {}

/** The time of a viewer session is over. */
export class ViewerSessionExpired extends failure("NotFound", "VIEWER_SESSION_EXPIRED", {
  text: "the viewer session has expired; make a new one with CreateViewerSession",
}) {}

/** A viewer session was ended before its time. */
export class ViewerSessionEnded extends failure("NotFound", "VIEWER_SESSION_ENDED", {
  text: "the viewer session was ended: its user group was deleted or got another token at once, or its sessions were revoked",
}) {}

/** A text is no viewer session that the caller may take, whatever becomes of its group. */
export class ViewerSessionInvalid extends failure("NotFound", "VIEWER_SESSION_INVALID", {
  text: (why: string) => why,
}) {}

/** A viewer session would be too long for a header. */
export class ViewerSessionTooLarge extends failure("InvalidArgument", "VIEWER_SESSION_TOO_LARGE", {
  text: (length: number, most: number) =>
    `the viewer session would have ${length} characters, and may have ${most}: name fewer property_keys, or shorten claims`,
}) {}

/** So many viewers of a group were ended that no more can be noted. */
export class TooManyEndedViewers extends failure("ResourceExhausted", "TOO_MANY_ENDED_VIEWERS", {
  text: `the sessions of ${MAX_ENDED_VIEWERS} viewers of the user group were ended within an hour, as many as are noted; leave viewer_id out to end those of the whole group`,
}) {}

/** A viewer session would not name where its keys are published. */
export class PublicUrlMissing extends failure("FailedPrecondition", "PUBLIC_URL_MISSING", {
  text: "viewer sessions name where their keys are published, which this service does not know: set PUBLIC_URL",
}) {}

/** Two calls changed the signing keys at once, and this one lost. */
export class SigningKeysChanged extends failure("Aborted", "SIGNING_KEYS_CHANGED", {
  text: "another call changed the signing keys at the same time; repeat the call",
}) {}

/** The environment has a group with this id, which is not as it is to be imported. */
export class UserGroupExists extends failure("AlreadyExists", "USER_GROUP_EXISTS", {
  text: "the environment has a user group with this id, which is another one; import it with IMPORT_MODE_UPSERT to replace it",
}) {}

/** Another group has the token that is to be imported. */
export class TokenTaken extends failure("AlreadyExists", "TOKEN_TAKEN", {
  text: "another user group of the environment has this token, as its current one or in its grace period; rotate or revoke it there first",
}) {}

/** The token that is to be imported is another credential, or looks like a token of this service and is none. */
export class TokenNotImportable extends failure("InvalidArgument", "TOKEN_NOT_IMPORTABLE", {
  text: "the text is no token of a user group: it is an API token, a viewer session or another credential, or a token of this service that was cut or mistyped; copy the group's token again, or leave it out for a new one",
  field: "token",
}) {}

/** The group is not as the caller has read it. */
export class EtagMismatch extends failure("Aborted", "ETAG_MISMATCH", {
  text: "the user group was changed since this etag was read; read it again and repeat the change",
}) {}

/** A rotation is repeated whose token is no longer the current one. */
export class TokenReplaced extends failure("Aborted", "TOKEN_REPLACED", {
  text: "the token that this request made was replaced since; GetUserGroup shows the group's current one",
}) {}

/** A request id is used again, but not to repeat the request. */
export class RequestIdReused extends failure("InvalidArgument", "REQUEST_ID_REUSED", {
  text: "this request id was used within 24 hours with other parameters; use a new one for a new request",
  field: "request_id",
}) {}

/** An update mask names what cannot be updated. */
export class InvalidUpdateMask extends failure("InvalidArgument", "INVALID_UPDATE_MASK", {
  text: (...allowed: readonly string[]) => `update_mask may hold ${allowed.join(", ")}, or * alone`,
  field: "update_mask",
}) {}

/** There is no such environment. */
export class EnvironmentNotFound extends failure("NotFound", "ENVIRONMENT_NOT_FOUND", {
  text: "no environment has this name and tag; create it with CreateEnvironment",
}) {}

/** There is such an environment already. */
export class EnvironmentExists extends failure("AlreadyExists", "ENVIRONMENT_EXISTS", {
  text: "there is an environment of this name and tag already; use it, or choose another name or tag",
}) {}

/** An environment with groups is deleted only by force. */
export class EnvironmentNotEmpty extends failure("FailedPrecondition", "ENVIRONMENT_NOT_EMPTY", {
  text: "the environment has user groups; delete them first, or set force to delete it with all of them",
}) {}

/** The deletion of an environment has begun, and is not done. */
export class EnvironmentBeingDeleted extends failure("FailedPrecondition", "ENVIRONMENT_BEING_DELETED", {
  text: "the environment of this name and tag is being deleted; repeat DeleteEnvironment with force until it is done",
}) {}

/** The environment has no API token with this id. */
export class ApiTokenNotFound extends failure("NotFound", "API_TOKEN_NOT_FOUND", {
  text: "the environment has no API token with this id; it may be revoked already",
}) {}

/** The environment may have no further API token. */
export class TooManyApiTokens extends failure("ResourceExhausted", "TOO_MANY_API_TOKENS", {
  text: `the environment has ${MAX_API_TOKENS} API tokens, as many as it may have; revoke those that nobody uses`,
}) {}

/** The API token of the caller was revoked before it created or rotated another one. */
export class ApiTokenChanged extends failure("Aborted", "API_TOKEN_CHANGED", {
  text: "the API token of the caller was revoked at the same time; use another one",
}) {}

/** An API token would be shown to a caller whose own ends before it. */
export class ApiTokenOutlivesCaller extends failure("PermissionDenied", "API_TOKEN_OUTLIVES_CALLER", {
  text: "the API token lasts longer than that of the caller, who must not learn it; revoke it, or rotate it with one that lasts as long",
}) {}

/** A page token is not of this list. */
export class InvalidPageToken extends failure("InvalidArgument", "INVALID_PAGE_TOKEN", {
  text: "page_token must be the next_page_token of the page before, or empty for the first page",
  field: "page_token",
}) {}

/** The first event of a page was removed since the page before was read. */
export class AuditEventsExpired extends failure("InvalidArgument", "AUDIT_EVENTS_EXPIRED", {
  text: "the events of this page were removed: they are older than AUDIT_RETENTION, or more than AUDIT_MAX_EVENTS updates followed on their day; begin again with the first page",
  field: "page_token",
}) {}

/** Tokens are, or may be, encrypted under a key that is to be retired. */
export class TokenKeyInUse extends failure("FailedPrecondition", "TOKEN_KEY_IN_USE", {
  text: (why: string) => `the key is in use: ${why}`,
  field: "token_key_id",
}) {}

/** What the store holds cannot become the data of this service. */
export class DataNotAcceptable extends failure("FailedPrecondition", "DATA_NOT_ACCEPTABLE", {
  text: (why: string) => why,
}) {}

/** Why the store is unavailable, in words for an operator. */
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
    "Redis does not hold the data that this service knows: restore the data, or accept what Redis holds by ugs store accept",
  denied: "Redis denies its user a command or a key (NOPERM)",
  refused: "Redis refused a command",
} as const;

/** Why the store is unavailable. */
export type StoreFault = keyof typeof STORE_FAULTS;

/** The store did not answer in time, or refused. A change may have been made before this error, but not after it. */
export class StoreUnavailable extends failure("Unavailable", "STORE_UNAVAILABLE", {
  text: "the store does not answer; try again",
}) {
  override readonly outcome: ChangeOutcome | undefined;
  /** Undefined: not known. */
  readonly fault: StoreFault | undefined;

  constructor(cause?: unknown, outcome?: ChangeOutcome, fault?: StoreFault) {
    super(cause);
    this.outcome = outcome;
    this.fault = fault;
  }

  /** The same failure of a change with another outcome. */
  withOutcome(outcome: ChangeOutcome): StoreUnavailable {
    return new StoreUnavailable(this.cause, outcome, this.fault);
  }

  /** The message for operators, which names the fault. */
  get messageForOperators(): string {
    return this.fault === undefined ? this.message : `the store is unavailable: ${STORE_FAULTS[this.fault]}`;
  }
}

/** A change was made that too few replicas have confirmed. */
export class TooFewReplicas extends failure("Unavailable", "TOO_FEW_REPLICAS", {
  text: "the change was made but not confirmed by enough replicas, so a failover may lose it; read it again",
}) {
  /** It is made, but what a failover leaves of it is not known. */
  override readonly outcome = "unknown";
}

/** The environment has no team id left. */
export class EnvironmentFull extends failure("ResourceExhausted", "ENVIRONMENT_FULL", {
  text: "the environment has no team id left for another user group; use another environment",
}) {}

/** A stored record cannot be read: it was tampered with, or its encryption key is missing. */
export class RecordUnreadable extends failure("DataLoss", "RECORD_UNREADABLE", {
  text: "a stored record cannot be read; ask the operator to check TOKEN_KEYS and the store",
}) {
  override readonly outcome: ChangeOutcome | undefined;
  /** @param outcome of a change; undefined: the caller only reads */
  constructor(cause?: unknown, outcome?: ChangeOutcome) {
    super(cause);
    this.outcome = outcome;
  }
}
