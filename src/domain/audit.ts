import type { Role } from "./role.ts";

/**
 * Who makes a change, and by which call. Audit events are made of it, so none of it is secret. Properties may be
 * computed when they are read: only changes read them.
 */
export interface ChangeBy {
  /** The id of the API token: of an issued one, or `static-NAME` for an entry of `API_TOKENS`; `root`; or `service`. */
  readonly actorId: string;
  /** The display name of the API token. */
  readonly actorName: string;
  readonly role: Role | "root" | "service";
  /** The name of the RPC, such as `UpdateUserGroup`, also for REST. */
  readonly method: string;
  /** The id of the request, as its answer and the log name it; empty when there is no request. */
  readonly requestId: string;
  /** The IP address of the caller; empty when it is not known. */
  readonly peer: string;
}

/** Who creates the environments of `API_TOKENS`: no caller does, but the service when it starts. */
export const AT_START: ChangeBy = {
  actorId: "service",
  actorName: "the service at its start",
  role: "service",
  method: "CreateEnvironment",
  requestId: "",
  peer: "",
};

/** An event of the audit trail: a change, or a look at tokens. It has no values. */
export interface AuditEvent extends ChangeBy {
  /** Unique within the environment: rises from event to event. */
  readonly id: string;
  /** When it happened by the store's clock, in milliseconds since 1970. */
  readonly time: number;
  /** The id of the user group that changed; undefined for a change of another resource. */
  readonly userGroupId: string | undefined;
  /** The API token that was changed; undefined for a change of another resource. */
  readonly apiToken: AuditedApiToken | undefined;
  /** What was shown by an export of tokens; undefined for every other event. */
  readonly exported: ExportedUserGroups | undefined;
  /** The names of the fields that have new values, such as `name` or `token`. */
  readonly changedFields: readonly string[];
}

/** The API token that an event is about, as it was before the change; empty texts where that is not known. */
export interface AuditedApiToken {
  readonly id: string;
  readonly role: string;
  readonly displayName: string;
}

/** What an export of tokens showed. */
export interface ExportedUserGroups {
  /** What the ids of the groups had to begin with. */
  readonly prefix: string;
  /** How many groups. */
  readonly count: number;
}

/** Whether a text may be the key of a page of events: the number of an environment, and the id of an event. */
export function isAuditEventKey(text: string): boolean {
  return /^\d{1,7}\.\d{1,16}$/.test(text);
}

/** Which events to list; all that is given must hold. */
export interface AuditFilter {
  readonly userGroupId?: string | undefined;
  readonly actorId?: string | undefined;
  readonly method?: string | undefined;
  /** The earliest time, in milliseconds since 1970. */
  readonly from?: number | undefined;
  /** The time before which they happened, in milliseconds since 1970. */
  readonly before?: number | undefined;
}
