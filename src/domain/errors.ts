import { MAX_API_TOKENS } from "./api-token.ts";

/**
 * An expected failure of the domain. `reason` is a stable constant for programs. `name` is for the log; it is spelled
 * out because a bundler may rename classes.
 */
export abstract class DomainError extends Error {
  abstract override readonly name: string;
  abstract readonly reason: string;
}

/** The environment has no group with this id. */
export class UserGroupNotFound extends DomainError {
  override readonly name = "UserGroupNotFound";
  readonly reason = "USER_GROUP_NOT_FOUND";
  constructor() {
    super(
      "no user group has this user_group_id in the environment of the API token; GetUserGroup creates it for an API token of role manage",
    );
  }
}

/** No group of the environment has this token as its current one (or, for a viewer, within its grace). */
export class TokenNotFound extends DomainError {
  override readonly name = "TokenNotFound";
  readonly reason = "TOKEN_NOT_FOUND";
  /** @param malformed whether the text alone shows that it cannot be a user group token */
  constructor(malformed = false) {
    super(
      malformed
        ? "this is not a well-formed user group token: it was cut or mistyped, or is another kind of token; copy it again"
        : "no user group of the environment has this token; it was rotated, mistyped, or belongs to another environment",
    );
  }
}

/** The environment has a group with this id, which is not as it is to be imported. */
export class UserGroupExists extends DomainError {
  override readonly name = "UserGroupExists";
  readonly reason = "USER_GROUP_EXISTS";
  constructor() {
    super(
      "the environment has a user group with this id, which is another one; import it with IMPORT_MODE_UPSERT to replace it",
    );
  }
}

/** Another group of the environment has this token, or an import may be about to give it to one. */
export class TokenTaken extends DomainError {
  override readonly name = "TokenTaken";
  readonly reason = "TOKEN_TAKEN";
  constructor() {
    super(
      "another user group of the environment has this token, or an import that was cut off was about to give it to one: rotate or revoke it there first, or try again in five minutes",
    );
  }
}

/** The token cannot be given to any group. */
export class TokenNotImportable extends DomainError {
  override readonly name = "TokenNotImportable";
  readonly reason = "TOKEN_NOT_IMPORTABLE";
  constructor() {
    super(
      "the token begins as those of this service do, but it was cut or mistyped, or is an API token; copy it again, or leave it out for a new one",
    );
  }
}

/** The group was changed since the caller read the etag. */
export class EtagMismatch extends DomainError {
  override readonly name = "EtagMismatch";
  readonly reason = "ETAG_MISMATCH";
  constructor() {
    super("the user group was changed since this etag was read; read it again and repeat the change");
  }
}

/** The token that the first rotation under this request id made has been replaced since. */
export class TokenReplaced extends DomainError {
  override readonly name = "TokenReplaced";
  readonly reason = "TOKEN_REPLACED";
  constructor() {
    super("the token that this request made was replaced since; GetUserGroup shows the group's current one");
  }
}

/** The request id was already used for a rotation with other parameters. */
export class RequestIdReused extends DomainError {
  override readonly name = "RequestIdReused";
  readonly reason = "REQUEST_ID_REUSED";
  constructor() {
    super("this request id was used within 24 hours with other parameters; use a new one for a new request");
  }
}

/** The update mask names what is no field that can be updated. */
export class InvalidUpdateMask extends DomainError {
  override readonly name = "InvalidUpdateMask";
  readonly reason = "INVALID_UPDATE_MASK";
  /** @param fields those that it may name */
  constructor(fields: readonly string[] = []) {
    super(`update_mask may hold ${fields.join(", ")}, or * alone`);
  }
}

/** No environment has this name and tag. */
export class EnvironmentNotFound extends DomainError {
  override readonly name = "EnvironmentNotFound";
  readonly reason = "ENVIRONMENT_NOT_FOUND";
  constructor() {
    super("no environment has this name and tag; create it with CreateEnvironment");
  }
}

/** There is an environment of this name and tag. */
export class EnvironmentExists extends DomainError {
  override readonly name = "EnvironmentExists";
  readonly reason = "ENVIRONMENT_EXISTS";
  constructor() {
    super("there is an environment of this name and tag already; use it, or choose another name or tag");
  }
}

/** The environment has no API token with this id. */
export class ApiTokenNotFound extends DomainError {
  override readonly name = "ApiTokenNotFound";
  readonly reason = "API_TOKEN_NOT_FOUND";
  constructor() {
    super("the environment has no API token with this id; it may be revoked already");
  }
}

/** The environment has as many API tokens as it may have. */
export class TooManyApiTokens extends DomainError {
  override readonly name = "TooManyApiTokens";
  readonly reason = "TOO_MANY_API_TOKENS";
  constructor() {
    super(`the environment has ${MAX_API_TOKENS} API tokens, as many as it may have; revoke those that nobody uses`);
  }
}

/** The API token, or that of the caller, was changed or ended by another call at the same time. */
export class ApiTokenChanged extends DomainError {
  override readonly name = "ApiTokenChanged";
  readonly reason = "API_TOKEN_CHANGED";
  constructor() {
    super(
      "another call changed, rotated or revoked the API token at the same time; look at it again and repeat the call",
    );
  }
}

/** The API token lasts longer than that of the caller, who would outlive it with its new text. */
export class ApiTokenOutlivesCaller extends DomainError {
  override readonly name = "ApiTokenOutlivesCaller";
  readonly reason = "API_TOKEN_OUTLIVES_CALLER";
  constructor() {
    super(
      "the API token lasts longer than that of the caller, who must not learn it; revoke it, or rotate it with one that lasts as long",
    );
  }
}

/** The page token is not one that a list gave. */
export class InvalidPageToken extends DomainError {
  override readonly name = "InvalidPageToken";
  readonly reason = "INVALID_PAGE_TOKEN";
  constructor() {
    super("page_token must be the next_page_token of the page before, or empty for the first page");
  }
}

/** What became of a change that failed: it was not made and will not be, or it may have been made. */
export type ChangeOutcome = "not_made" | "unknown";

/**
 * The store did not answer in time, or refused. A change may have been made before this error, but is not made after
 * it.
 */
export class StoreUnavailable extends DomainError {
  override readonly name = "StoreUnavailable";
  readonly reason = "STORE_UNAVAILABLE";
  /** Undefined: nothing was to be changed. */
  readonly outcome: ChangeOutcome | undefined;
  constructor(cause?: unknown, outcome?: ChangeOutcome) {
    super("the store does not answer; try again", { cause });
    this.outcome = outcome;
  }
}

/** The change was made on the primary, but too few replicas confirmed it in time. */
export class TooFewReplicas extends DomainError {
  override readonly name = "TooFewReplicas";
  readonly reason = "TOO_FEW_REPLICAS";
  /** It is made, but what a failover leaves of it is not known. */
  readonly outcome: ChangeOutcome = "unknown";
  constructor(cause?: unknown) {
    super("the change was made but not confirmed by enough replicas, so a failover may lose it; read it again", {
      cause,
    });
  }
}

/** The environment has no team id left, at least in the group's partition. */
export class EnvironmentFull extends DomainError {
  override readonly name = "EnvironmentFull";
  readonly reason = "ENVIRONMENT_FULL";
  constructor() {
    super("the environment has no team id left for another user group; use another environment");
  }
}

/** A stored record cannot be read: it was tampered with, or its encryption key is missing. */
export class RecordUnreadable extends DomainError {
  override readonly name = "RecordUnreadable";
  readonly reason = "RECORD_UNREADABLE";
  constructor(cause?: unknown) {
    super("a stored record cannot be read; ask the operator to check TOKEN_KEYS and the store", { cause });
  }
}
