import { defineScript, type Script, type ScriptDefinition, type Words } from "./connection/script.ts";
import type { EventStream, KeyName } from "./keys.ts";
import addMember from "./scripts/add-member.lua" with { type: "text" };
import beginDeletion from "./scripts/begin-deletion.lua" with { type: "text" };
import beginWebhookCheck from "./scripts/begin-webhook-check.lua" with { type: "text" };
import changeWebhook from "./scripts/change-webhook.lua" with { type: "text" };
import claimWebhook from "./scripts/claim-webhook.lua" with { type: "text" };
import clearEnvironment from "./scripts/clear-environment.lua" with { type: "text" };
import count from "./scripts/count.lua" with { type: "text" };
import createApiToken from "./scripts/create-api-token.lua" with { type: "text" };
import createEnvironment from "./scripts/create-environment.lua" with { type: "text" };
import createWebhook from "./scripts/create-webhook.lua" with { type: "text" };
import deleteGroup from "./scripts/delete-group.lua" with { type: "text" };
import deleteWebhook from "./scripts/delete-webhook.lua" with { type: "text" };
import dueWebhooks from "./scripts/due-webhooks.lua" with { type: "text" };
import endSessions from "./scripts/end-sessions.lua" with { type: "text" };
import findApiToken from "./scripts/find-api-token.lua" with { type: "text" };
import listIds from "./scripts/list-ids.lua" with { type: "text" };
import noteExpiry from "./scripts/note-expiry.lua" with { type: "text" };
import noteKeyUse from "./scripts/note-key-use.lua" with { type: "text" };
import noteResolves from "./scripts/note-resolves.lua" with { type: "text" };
import noteTime from "./scripts/note-time.lua" with { type: "text" };
import noteTokenUse from "./scripts/note-token-use.lua" with { type: "text" };
import read from "./scripts/read.lua" with { type: "text" };
import readEvents from "./scripts/read-events.lua" with { type: "text" };
import recordEvent from "./scripts/record-event.lua" with { type: "text" };
import removeMember from "./scripts/remove-member.lua" with { type: "text" };
import repairToken from "./scripts/repair-token.lua" with { type: "text" };
import replaceFields from "./scripts/replace-fields.lua" with { type: "text" };
import resolveSession from "./scripts/resolve-session.lua" with { type: "text" };
import resolveToken from "./scripts/resolve-token.lua" with { type: "text" };
import resumeGroup from "./scripts/resume-group.lua" with { type: "text" };
import retireKey from "./scripts/retire-key.lua" with { type: "text" };
import revokeApiTokens from "./scripts/revoke-api-tokens.lua" with { type: "text" };
import rotateApiToken from "./scripts/rotate-api-token.lua" with { type: "text" };
import rotateToken from "./scripts/rotate-token.lua" with { type: "text" };
import setIdentity from "./scripts/set-identity.lua" with { type: "text" };
import setSigningKeys from "./scripts/set-signing-keys.lua" with { type: "text" };
import settleWebhook from "./scripts/settle-webhook.lua" with { type: "text" };
import suspendGroup from "./scripts/suspend-group.lua" with { type: "text" };
import updateApiToken from "./scripts/update-api-token.lua" with { type: "text" };
import updateGroup from "./scripts/update-group.lua" with { type: "text" };
import writeGroup from "./scripts/write-group.lua" with { type: "text" };

/*
 * All scripts of the store. The comment at the start of each `.lua` file describes the effect and the results of the
 * script.
 */

export const READ = defineScript("read", read, { keys: "key" });

export const RESOLVE_TOKEN = defineScript("read", resolveToken, { keys: "environment tokens", args: "field" });

export const RESOLVE_SESSION = defineScript("read", resolveSession, {
  keys: "environment group ended",
  args: "viewer",
});

/** `contains` must be empty. Use `SEARCH_IDS` for a search by name, because the search reads the keys of the groups. */
export const LIST_IDS = defineScript("read", listIds, {
  keys: "ids",
  args: "from idPrefix count contains",
});

export const SEARCH_IDS = { ...LIST_IDS, singleKey: false };

export const FIND_API_TOKEN = defineScript("read", findApiToken, {
  keys: "environment apiTokens",
  args: "digest",
});

export const READ_EVENTS = defineScript("read", readEvents, {
  keys: "environment",
  args: "cursor cursorTime retentionMs count from maxDays",
  singleKey: false,
});

export const COUNT = defineScript("count", count, { keys: "key", args: "amount windowSeconds" });

export const NOTE_TIME = defineScript("count", noteTime, { keys: "format time" });

export const NOTE_TOKEN_USE = defineScript("change", noteTokenUse, { keys: "apiToken", args: "intervalMs" });

export const NOTE_RESOLVES = defineScript("change", noteResolves, { keys: "environment", singleKey: false });

export const SET_IDENTITY = defineScript("change", setIdentity, { keys: "key", args: "layout id accepted" });

export const ADD_MEMBER = defineScript("change", addMember, { keys: "key", args: "member" });

export const REMOVE_MEMBER = defineScript("change", removeMember, { keys: "key", args: "member", allowOom: true });

export const NOTE_KEY_USE = defineScript("change", noteKeyUse, { keys: "key", args: "id check" });

export const RETIRE_KEY = defineScript("change", retireKey, { keys: "key", args: "id since" });

export const REPAIR_TOKEN = defineScript("change", repairToken, {
  keys: "environment group tokens",
  args: "id digest",
});

export const REPLACE_FIELDS = defineScript("change", replaceFields, { keys: "key", args: "field expected" });

export const DUE_WEBHOOKS = defineScript("read", dueWebhooks, {
  keys: "environment webhooks times",
  singleKey: false,
});

/** The arguments with which a script writes its audit events (`parts/environment.lua`). */
const EVENT_ARGS = "retentionMs maxUpdates actorId actorName role method requestId peer";

export type EventArg = Words<typeof EVENT_ARGS>;

export type EnvironmentScript<Arg extends string = string> = Script<KeyName, Arg | EventArg>;

interface EnvironmentScriptDefinition<Args extends string> extends Partial<ScriptDefinition<string, Args>> {
  /** The required state of the environment. If empty, the environment must not exist. Default: `active`. */
  readonly state?: "active" | "deleting" | "";
  /** The stream of the events. Default: `events`. */
  readonly stream?: EventStream;
}

/**
 * Defines a script that changes an environment. The script writes its events with `audit`. The keys of the script must
 * be in `KEYS`.
 */
function environmentScript<const Args extends string = "">(
  lua: string,
  { keys = "", args, state = "active", stream = "events", ...options }: EnvironmentScriptDefinition<Args>,
): EnvironmentScript<Words<Args>> {
  const text = `local state, stream = '${state}', '${stream}'\n-- include: environment\n${lua}`;
  const all = { keys: `environment ${keys}`.trim(), args: `${args ?? ""} ${EVENT_ARGS}`.trim(), singleKey: false };
  return defineScript("change", text, { ...options, ...all }) as EnvironmentScript<Words<Args>>;
}

export const RECORD_EVENT = environmentScript(recordEvent, { args: "subject changedFields" });

export const CREATE_ENVIRONMENT = environmentScript(createEnvironment, { keys: "ids", args: "path", state: "" });

export const BEGIN_DELETION = environmentScript(beginDeletion, {
  keys: "ids signingKeys",
  args: "force message",
  allowOom: true,
});

export const CLEAR_ENVIRONMENT = environmentScript(clearEnvironment, {
  args: "count",
  state: "deleting",
  allowOom: true,
});

export const WRITE_GROUP = environmentScript(writeGroup, {
  keys: "group ids tokens",
  args: "id expectedVersion digest graceMs teamIds changedFields removed unlessExpired",
});

export const UPDATE_GROUP = environmentScript(updateGroup, {
  keys: "group",
  args: "id etag keyIds changedFields removed",
  stream: "updates",
});

export const DELETE_GROUP = environmentScript(deleteGroup, {
  keys: "target ids",
  args: "id currentDigest etag",
  allowOom: true,
});

/** Runs even if Redis' memory is full, because a suspension ends the access of viewers. */
export const SUSPEND_GROUP = environmentScript(suspendGroup, {
  keys: "group",
  args: "id reason message untilTime",
  allowOom: true,
});

export const RESUME_GROUP = environmentScript(resumeGroup, { keys: "group", args: "id" });

const rotation = {
  keys: "target request tokens",
  args: "id currentDigest digest tokenText keyId graceMs requestDigest parameters requestTtlMs",
} as const;

export const ROTATE_TOKEN = environmentScript(rotateToken, rotation);

/**
 * The same Lua file as `ROTATE_TOKEN`. Runs even if Redis' memory is full, because the rotation revokes a leaked token.
 */
export const REVOKE_TOKENS = environmentScript(rotateToken, { ...rotation, allowOom: true });

export const END_SESSIONS = environmentScript(endSessions, {
  keys: "group",
  args: "id viewer maxViewers notesTtlMs",
  allowOom: true,
});

export const CREATE_API_TOKEN = environmentScript(createApiToken, {
  keys: "apiTokens apiToken",
  args: "id digest tokenRole displayName expireTime maxTokens",
});

export const ROTATE_API_TOKEN = environmentScript(rotateApiToken, {
  keys: "apiTokens apiToken",
  args: "id digest notBeyond graceMs maxPrevious",
});

export const UPDATE_API_TOKEN = environmentScript(updateApiToken, {
  keys: "apiToken",
  args: "id displayName expireTime",
});

export const REVOKE_API_TOKENS = environmentScript(revokeApiTokens, {
  keys: "apiTokens",
  args: "pauseMs",
  allowOom: true,
});

/** Runs even if Redis' memory is full, because a replacement of leaked keys revokes sessions. */
export const SET_SIGNING_KEYS = environmentScript(setSigningKeys, {
  keys: "signingKeys",
  args: "expectedVersion message",
  allowOom: true,
});

export const NOTE_EXPIRY = environmentScript(noteExpiry, {
  keys: "apiToken",
  args: "id expireTime days",
});

export const CREATE_WEBHOOK = environmentScript(createWebhook, {
  keys: "webhooks webhook",
  args: "id maxWebhooks",
});

export const CHANGE_WEBHOOK = environmentScript(changeWebhook, {
  keys: "webhook",
  args: "id secret graceMs maxSecrets since",
});

export const DELETE_WEBHOOK = environmentScript(deleteWebhook, {
  keys: "webhooks webhook deliveries",
  args: "id",
  allowOom: true,
});

export const BEGIN_WEBHOOK_CHECK = environmentScript(beginWebhookCheck, {
  keys: "webhooks times",
  args: "field intervalMs refresh",
});

export const CLAIM_WEBHOOK = environmentScript(claimWebhook, {
  keys: "webhook",
  args: "id holder leaseMs",
});

export const SETTLE_WEBHOOK = environmentScript(settleWebhook, {
  keys: "webhook deliveries",
  args: "id holder outcome entry eventTime from to toTime release retryMs leaseMs disableAfterMs maxDeliveries",
});
