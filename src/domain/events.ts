import type { AuditEvent } from "./audit.ts";

/** The event type of each RPC. Creations of groups are not in this table, because several RPCs create groups. */
const TYPE_BY_METHOD = {
  UpdateUserGroup: "user_group.updated",
  ImportUserGroups: "user_group.updated",
  RotateUserGroupToken: "user_group.rotated",
  SuspendUserGroup: "user_group.suspended",
  ResumeUserGroup: "user_group.resumed",
  RevokeUserGroupTokens: "user_group.revoked",
  DeleteUserGroup: "user_group.deleted",
  RevokeViewerSessions: "viewer_sessions.revoked",
  CreateApiToken: "api_token.created",
  UpdateApiToken: "api_token.updated",
  RotateApiToken: "api_token.rotated",
  RevokeApiToken: "api_token.revoked",
  NoteApiTokenExpiry: "api_token.expiring",
  RotateSigningKey: "signing_key.rotated",
  ExportUserGroups: "user_groups.exported",
  ReencryptUserGroupTokens: "user_groups.reencrypted",
  CreateWebhook: "webhook.created",
  UpdateWebhook: "webhook.updated",
  RotateWebhookSecret: "webhook.updated",
  RedeliverWebhook: "webhook.updated",
  DisableWebhook: "webhook.disabled",
  DeleteWebhook: "webhook.deleted",
  CreateEnvironment: "environment.created",
  DeleteEnvironment: "environment.updated",
} as const;

/** The types of events in the feed and in webhooks. Consumers must ignore unknown types. */
export const EVENT_TYPES = ["user_group.created" as const, ...new Set(Object.values(TYPE_BY_METHOD))];

type EventType = (typeof EVENT_TYPES)[number];

/** An event of the audit trail, with its type for the feed and for webhooks. */
export interface FeedEvent extends AuditEvent {
  readonly type: EventType;
}

/** Returns the type of an event of the audit trail. @param isCreation whether the call created a user group */
export function eventTypeOf(event: AuditEvent, isCreation: boolean): EventType {
  if (isCreation) return "user_group.created";
  // If the environment needs a new signing key, methods other than RotateSigningKey also change the keys.
  if (event.changedFields.includes("signing_keys")) return "signing_key.rotated";
  const byMethod = (TYPE_BY_METHOD as { readonly [method: string]: EventType | undefined })[event.method];
  if (byMethod) return byMethod;
  if (event.userGroupId !== undefined) return "user_group.updated";
  return event.apiTokenId !== undefined ? "api_token.updated" : "environment.updated";
}

/** The place in the events of an environment at which a reader begins. */
export interface EventStart {
  /**
   * The id of an event, or a time in microseconds since 1970. If it is an id, the reader has read this event and all
   * events before it. If it is a time, the reader has read all events before this time. If events after this time were
   * removed, the reader begins after the last removed event. The time 0 selects the first event. The time Infinity
   * skips all existing events.
   */
  readonly cursor: number;
  /**
   * At this time, in milliseconds since 1970 by the store's clock, no event with a higher id than `cursor` existed.
   * Undefined if `cursor` is itself a time.
   */
  readonly cursorTime: number | undefined;
}

/** An `EventStart` whose `cursor` is the id of an event. */
export interface EventPosition extends EventStart {
  readonly cursorTime: number;
}

/** The content of a cursor of WatchEvents. */
export interface EventCursor extends EventPosition {
  /** The number of the environment. */
  readonly number: number;
  /** The key of the next page of a snapshot of the groups. Undefined if the reader is not reading a snapshot. */
  readonly snapshotAfter?: string | undefined;
}

export interface EventPage {
  readonly events: readonly FeedEvent[];
  /** The position after the page. The position may advance even if the page is empty. */
  readonly next: EventPosition;
  /** Whether the next page may have events. False if no event exists yet after this page. */
  readonly hasMore: boolean;
}

export function positionAfter({ id, time }: FeedEvent): EventPosition {
  return { cursor: Number(id), cursorTime: time };
}

export function formatCursor({ number, cursor, cursorTime, snapshotAfter }: EventCursor): string {
  const snapshot = snapshotAfter === undefined ? "" : `.${snapshotAfter}`;
  return Buffer.from(`${number}.${cursor}.${cursorTime}${snapshot}`).toString("base64url");
}

/** Parses a cursor. Returns undefined if the cursor is malformed. */
export function parseCursor(text: string): EventCursor | undefined {
  const plain = Buffer.from(text, "base64url").toString();
  const [, numbers = "", snapshotAfter] = /^(\d{1,7}\.\d{1,16}\.\d{1,13})(?:\.(.*))?$/s.exec(plain) ?? [];
  const [number, cursor, cursorTime] = numbers.split(".").map(Number) as [number, number, number];
  const parsed = { number, cursor, cursorTime, snapshotAfter };
  return formatCursor(parsed) === text ? parsed : undefined;
}
