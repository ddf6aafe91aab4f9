import { MAX_API_TOKENS } from "./api-token.ts";
import { MAX_ENDED_VIEWERS } from "./viewer-session.ts";

/** What kind of failure it is, by the name of its gRPC code. */
export type FailureKind =
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

/** When each failure below happens, and what to do: what the caller is told, by the reason. */
const TEXTS = {
  USER_GROUP_NOT_FOUND:
    "no user group has this user_group_id in the environment of the API token; GetUserGroup creates it for an API token of role manage",
  TOKEN_NOT_FOUND:
    "no user group of the environment has this token; it was rotated, mistyped, or belongs to another environment",
  VIEWER_SESSION_EXPIRED: "the viewer session has expired; make a new one with CreateViewerSession",
  VIEWER_SESSION_ENDED:
    "the viewer session was ended: its user group was deleted or got another token at once, or its sessions were revoked",
  VIEWER_SESSION_INVALID: "",
  VIEWER_SESSION_TOO_LARGE: "",
  TOO_MANY_ENDED_VIEWERS: `the sessions of ${MAX_ENDED_VIEWERS} viewers of the user group were ended within an hour, as many as are noted; leave viewer_id out to end those of the whole group`,
  PUBLIC_URL_MISSING:
    "viewer sessions name where their keys are published, which this service does not know: set PUBLIC_URL",
  SIGNING_KEYS_CHANGED: "another call changed the signing keys at the same time; repeat the call",
  USER_GROUP_EXISTS:
    "the environment has a user group with this id, which is another one; import it with IMPORT_MODE_UPSERT to replace it",
  TOKEN_TAKEN:
    "another user group of the environment has this token, or an import that was cut off was about to give it to one: rotate or revoke it there first, or try again in five minutes",
  TOKEN_NOT_IMPORTABLE:
    "the token begins as those of this service do, but it was cut or mistyped, or is an API token; copy it again, or leave it out for a new one",
  ETAG_MISMATCH: "the user group was changed since this etag was read; read it again and repeat the change",
  TOKEN_REPLACED: "the token that this request made was replaced since; GetUserGroup shows the group's current one",
  REQUEST_ID_REUSED: "this request id was used within 24 hours with other parameters; use a new one for a new request",
  INVALID_UPDATE_MASK: "",
  ENVIRONMENT_NOT_FOUND: "no environment has this name and tag; create it with CreateEnvironment",
  ENVIRONMENT_EXISTS: "there is an environment of this name and tag already; use it, or choose another name or tag",
  ENVIRONMENT_NOT_EMPTY:
    "the environment has user groups; delete them first, or set force to delete it with all of them",
  ENVIRONMENT_BEING_DELETED:
    "the environment of this name and tag is being deleted; repeat DeleteEnvironment with force until it is done",
  API_TOKEN_NOT_FOUND: "the environment has no API token with this id; it may be revoked already",
  TOO_MANY_API_TOKENS: `the environment has ${MAX_API_TOKENS} API tokens, as many as it may have; revoke those that nobody uses`,
  API_TOKEN_CHANGED:
    "another call changed or rotated the API token at the same time; look at it again and repeat the call",
  API_TOKEN_OUTLIVES_CALLER:
    "the API token lasts longer than that of the caller, who must not learn it; revoke it, or rotate it with one that lasts as long",
  INVALID_PAGE_TOKEN: "page_token must be the next_page_token of the page before, or empty for the first page",
  TOKEN_KEY_IN_USE: "",
  STORE_UNAVAILABLE: "the store does not answer; try again",
  TOO_FEW_REPLICAS:
    "the change was made but not confirmed by enough replicas, so a failover may lose it; read it again",
  ENVIRONMENT_FULL: "the environment has no team id left for another user group; use another environment",
  RECORD_UNREADABLE: "a stored record cannot be read; ask the operator to check TOKEN_KEYS and the store",
};

/**
 * Makes the class of a failure. Its name, for the log, is made of the reason, because a bundler may rename classes.
 *
 * @param field of the request that is at fault, where it is always the same one
 */
function failure(kind: FailureKind, reason: keyof typeof TEXTS, field?: string) {
  const name = reason.toLowerCase().replace(/(?:^|_)(.)/g, (_, letter: string) => letter.toUpperCase());
  return class extends DomainError {
    override readonly name = name;
    readonly kind = kind;
    readonly reason = reason;
    readonly field = field;
    constructor(cause?: unknown, message = TEXTS[reason]) {
      super(message, cause === undefined ? undefined : { cause });
    }
  };
}

export class UserGroupNotFound extends failure("NotFound", "USER_GROUP_NOT_FOUND") {}

/** No group of the environment has this token as its current one (or, for a viewer, within its grace). */
export class TokenNotFound extends failure("NotFound", "TOKEN_NOT_FOUND") {
  /** @param malformed whether the text alone shows that it cannot be a user group token */
  constructor(malformed = false) {
    super(
      undefined,
      malformed
        ? "this is not a well-formed user group token: it was cut or mistyped, or is another kind of token; copy it again"
        : undefined,
    );
  }
}

export class ViewerSessionExpired extends failure("NotFound", "VIEWER_SESSION_EXPIRED") {}
export class ViewerSessionEnded extends failure("NotFound", "VIEWER_SESSION_ENDED") {}

/** A text is no viewer session that the caller may take, whatever becomes of its group. */
export class ViewerSessionInvalid extends failure("NotFound", "VIEWER_SESSION_INVALID") {
  constructor(why = "") {
    super(undefined, why);
  }
}

export class ViewerSessionTooLarge extends failure("InvalidArgument", "VIEWER_SESSION_TOO_LARGE") {
  constructor(length = 0, most = 0) {
    super(
      undefined,
      `the viewer session would have ${length} characters, and may have ${most}: name fewer property_keys, or shorten claims`,
    );
  }
}

export class TooManyEndedViewers extends failure("ResourceExhausted", "TOO_MANY_ENDED_VIEWERS") {}
export class PublicUrlMissing extends failure("FailedPrecondition", "PUBLIC_URL_MISSING") {}
export class SigningKeysChanged extends failure("Aborted", "SIGNING_KEYS_CHANGED") {}

/** The environment has a group with this id, which is not as it is to be imported. */
export class UserGroupExists extends failure("AlreadyExists", "USER_GROUP_EXISTS") {}
export class TokenTaken extends failure("AlreadyExists", "TOKEN_TAKEN") {}
export class TokenNotImportable extends failure("InvalidArgument", "TOKEN_NOT_IMPORTABLE", "token") {}
export class EtagMismatch extends failure("Aborted", "ETAG_MISMATCH") {}
export class TokenReplaced extends failure("Aborted", "TOKEN_REPLACED") {}
export class RequestIdReused extends failure("InvalidArgument", "REQUEST_ID_REUSED", "request_id") {}

export class InvalidUpdateMask extends failure("InvalidArgument", "INVALID_UPDATE_MASK", "update_mask") {
  /** @param fields those that it may name */
  constructor(fields: readonly string[] = []) {
    super(undefined, `update_mask may hold ${fields.join(", ")}, or * alone`);
  }
}

export class EnvironmentNotFound extends failure("NotFound", "ENVIRONMENT_NOT_FOUND") {}
export class EnvironmentExists extends failure("AlreadyExists", "ENVIRONMENT_EXISTS") {}
export class EnvironmentNotEmpty extends failure("FailedPrecondition", "ENVIRONMENT_NOT_EMPTY") {}
export class EnvironmentBeingDeleted extends failure("FailedPrecondition", "ENVIRONMENT_BEING_DELETED") {}
export class ApiTokenNotFound extends failure("NotFound", "API_TOKEN_NOT_FOUND") {}
export class TooManyApiTokens extends failure("ResourceExhausted", "TOO_MANY_API_TOKENS") {}
export class ApiTokenChanged extends failure("Aborted", "API_TOKEN_CHANGED") {}
export class ApiTokenOutlivesCaller extends failure("PermissionDenied", "API_TOKEN_OUTLIVES_CALLER") {}
export class InvalidPageToken extends failure("InvalidArgument", "INVALID_PAGE_TOKEN", "page_token") {}

/** Tokens are, or may be, encrypted under a key that is to be retired. */
export class TokenKeyInUse extends failure("FailedPrecondition", "TOKEN_KEY_IN_USE", "token_key_id") {
  constructor(why = "") {
    super(undefined, `the key is in use: ${why}`);
  }
}

/** The store did not answer in time, or refused. A change may have been made before this error, but not after it. */
export class StoreUnavailable extends failure("Unavailable", "STORE_UNAVAILABLE") {
  override readonly outcome: ChangeOutcome | undefined;
  constructor(cause?: unknown, outcome?: ChangeOutcome) {
    super(cause);
    this.outcome = outcome;
  }
}

export class TooFewReplicas extends failure("Unavailable", "TOO_FEW_REPLICAS") {
  /** It is made, but what a failover leaves of it is not known. */
  override readonly outcome = "unknown";
}

/** The environment has no team id left, at least in the group's partition. */
export class EnvironmentFull extends failure("ResourceExhausted", "ENVIRONMENT_FULL") {}

/** A stored record cannot be read: it was tampered with, or its encryption key is missing. */
export class RecordUnreadable extends failure("DataLoss", "RECORD_UNREADABLE") {}
