import type { AuditEvent } from "./audit.ts";

/** The types of events in the feed and in webhooks. Consumers must ignore unknown types. */
export const EVENT_TYPES = [
  "user_group.created",
  "user_group.updated",
  "user_group.rotated",
  "user_group.suspended",
  "user_group.resumed",
  "user_group.revoked",
  "user_group.deleted",
  "viewer_sessions.revoked",
  "api_token.created",
  "api_token.updated",
  "api_token.rotated",
  "api_token.revoked",
  "api_token.expiring",
  "signing_key.rotated",
  "user_groups.exported",
  "user_groups.reencrypted",
  "webhook.created",
  "webhook.updated",
  "webhook.disabled",
  "webhook.deleted",
  "environment.created",
  "environment.updated",
] as const;

type EventType = (typeof EVENT_TYPES)[number];

/** The event type of each RPC. Creations of groups are not in this table, because several RPCs create groups. */
const TYPE_BY_METHOD: { readonly [method: string]: EventType | undefined } = {
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
  ExportUserGroups: "user_groups.exported",
  ReencryptUserGroupTokens: "user_groups.reencrypted",
  CreateWebhook: "webhook.created",
  UpdateWebhook: "webhook.updated",
  RotateWebhookSecret: "webhook.updated",
  RedeliverWebhook: "webhook.updated",
  DisableWebhook: "webhook.disabled",
  DeleteWebhook: "webhook.deleted",
  CreateEnvironment: "environment.created",
};

/** An event of the audit trail, for the feed and for webhooks: ids and names of fields, but no values and no tokens. */
export interface FeedEvent
  extends Pick<AuditEvent, "id" | "time" | "actorId" | "userGroupId" | "webhookId" | "changedFields"> {
  readonly type: EventType;
  readonly apiTokenId: string | undefined;
}

/** Returns the type of an event of the audit trail. @param isCreation whether the call created a user group */
export function eventTypeOf(event: AuditEvent, isCreation: boolean): EventType {
  if (isCreation) return "user_group.created";
  // If the environment needs a new signing key, methods other than RotateSigningKey change the keys as well.
  if (event.changedFields.includes("signing_keys")) return "signing_key.rotated";
  const byMethod = TYPE_BY_METHOD[event.method];
  if (byMethod) return byMethod;
  if (event.userGroupId !== undefined) return "user_group.updated";
  return event.apiToken ? "api_token.updated" : "environment.updated";
}

/** A position in the events of an environment. The reader has read all events up to this position, inclusive. */
export interface EventPosition {
  readonly number: number;
  readonly id: number;
  /** At this time, in milliseconds since 1970 by the store's clock, no event with a higher id existed. */
  readonly time: number;
  /** The key of the next page, if the reader is still reading a snapshot of the groups. Otherwise undefined. */
  readonly snapshotAfter?: string | undefined;
}

/**
 * The start of a feed: a position, or a time in milliseconds since 1970. A time selects the events at or after this
 * time. If some of these events were removed, the feed begins after the last removed event. The time 0 selects the
 * beginning. The time Infinity skips all existing events.
 */
export type EventStart = EventPosition | { readonly since: number };

export interface EventPage {
  readonly events: readonly FeedEvent[];
  /** The position after the page, which may advance even if the page is empty. */
  readonly next: EventPosition;
  /** Whether the next page may have events. False if no event exists yet after this page. */
  readonly hasMore: boolean;
}

export function positionAfter({ id, time }: FeedEvent, { number }: Pick<EventPosition, "number">): EventPosition {
  return { number, id: Number(id), time };
}

export function formatCursor({ number, id, time, snapshotAfter }: EventPosition): string {
  const snapshot = snapshotAfter === undefined ? "" : `.${snapshotAfter}`;
  return Buffer.from(`${number}.${id}.${time}${snapshot}`).toString("base64url");
}

/** Parses a cursor. Returns undefined if the cursor is malformed. */
export function parseCursor(cursor: string): EventPosition | undefined {
  const text = Buffer.from(cursor, "base64url").toString();
  const [, numbers = "", snapshotAfter] = /^(\d{1,7}\.\d{1,16}\.\d{1,13})(?:\.(.*))?$/s.exec(text) ?? [];
  const [number, id, time] = numbers.split(".").map(Number) as [number, number, number];
  const position = { number, id, time, snapshotAfter };
  return formatCursor(position) === cursor ? position : undefined;
}
