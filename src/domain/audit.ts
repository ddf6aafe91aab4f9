import type { Role } from "./role.ts";

/**
 * The author of a change, and details of the call. Audit events contain these values, so no value may be secret. Calls
 * that change nothing do not read these values, so a value that is expensive to compute can be a getter.
 */
export interface ChangeBy {
  /**
   * The id of an issued API token. For a token in `API_TOKENS`, this is `static-NAME`, or `static-DIGEST` if the token
   * has no name. For `ADMIN_TOKEN`, this is `root`. For a change that the service makes by itself, this is `service`.
   */
  readonly actorId: string;
  readonly actorName: string;
  readonly role: Role | "root" | "service";
  /** The name of the RPC, such as `UpdateUserGroup`. A REST call has the name of the RPC that it runs. */
  readonly method: string;
  /** The request id in the response and in the log. Empty if no request caused the change. */
  readonly requestId: string;
  /** The IP address of the caller. Empty if the address is unknown. */
  readonly peer: string;
}

/** Returns the author of a change that the service makes by itself. */
export function byService(actorName: string, method: string): ChangeBy {
  return { actorId: "service", actorName, role: "service", method, requestId: "", peer: "" };
}

/** The author of the environments that the service creates at its start for `API_TOKENS`. */
export const AT_START = byService("the service at its start", "CreateEnvironment");

/**
 * An event of the audit trail: a change, or an export of tokens. The event contains the names of changed fields, but
 * not their values. If the role or the display name of an API token is unknown, its field is empty.
 */
export interface AuditEvent extends ChangeBy {
  /** The id. It is unique within the environment, and higher than the ids of all events before this event. */
  readonly id: string;
  /** The time by the store's clock, in milliseconds since 1970. */
  readonly time: number;
  readonly changedFields: readonly string[];
  readonly userGroupId?: string;
  readonly apiTokenId?: string;
  readonly apiTokenRole?: string;
  /** The display name before the change. */
  readonly apiTokenDisplayName?: string;
  readonly webhookId?: string;
  readonly exported?: ExportedUserGroups;
}

export interface ExportedUserGroups {
  /** The export contains only ids with this prefix. */
  readonly providedIdPrefix: string;
  readonly count: number;
}

/** A filter for events. An event must meet all given conditions. */
export interface AuditFilter {
  readonly userGroupId?: string | undefined;
  readonly actorId?: string | undefined;
  readonly method?: string | undefined;
  /** The earliest time, in milliseconds since 1970. */
  readonly from?: number | undefined;
  /** The end of the time range, exclusive, in milliseconds since 1970. */
  readonly before?: number | undefined;
}
