import { randomBytes } from "node:crypto";
import type { ChangeBy } from "./audit.ts";
import { DAY_MS, HOUR_MS } from "./durations.ts";
import type { Environment } from "./environment.ts";
import type { EventStart } from "./events.ts";
import type { Page, PageRequest } from "./page.ts";

export const MAX_WEBHOOKS = 20;

/** The maximum number of attempts in the delivery log of a webhook. */
export const MAX_DELIVERIES = 100;

/** The time during which a replaced secret still signs messages, in milliseconds. */
export const SECRET_GRACE_MS = DAY_MS;

/** The maximum number of secrets that sign each message, including the current secret. */
export const MAX_SECRETS = 3;

/** The duration of continuous failures after which the service disables a webhook, in milliseconds. */
export const DISABLE_AFTER_MS = 3 * DAY_MS;

/** The prefix of secrets in the form of Standard Webhooks. */
export const WEBHOOK_SECRET_PREFIX = "whsec_";

/** The stored states. `failed`: the service disabled the webhook after `DISABLE_AFTER_MS` of failed deliveries. */
export const WEBHOOK_STATES = ["enabled", "disabled", "failed"] as const;

/** The state of a webhook. `secret_unreadable`: the webhook is enabled, but its current secret cannot be decrypted. */
export type WebhookState = (typeof WEBHOOK_STATES)[number] | "secret_unreadable";

/**
 * The result of an attempt: `delivered` (HTTP status 2xx), or a class of failures that reveals nothing about the
 * network. `secret`: the secret of the webhook cannot be decrypted, so the event cannot be signed.
 */
export const DELIVERY_OUTCOMES = [
  "delivered",
  "status",
  "redirect",
  "timeout",
  "name",
  "address",
  "connection",
  "tls",
  "secret",
] as const;

export type DeliveryOutcome = (typeof DELIVERY_OUTCOMES)[number];

/**
 * An endpoint for the events of an environment. All events up to `cursor` have been delivered or need no delivery.
 * Times are in milliseconds since 1970 by the store's clock.
 */
export interface Webhook extends EventStart {
  /** The id, which is not secret. */
  readonly id: string;
  readonly displayName: string;
  readonly url: string;
  /** The event types that the webhook receives. If empty, the webhook receives all types. */
  readonly eventTypes: readonly string[];
  readonly state: WebhookState;
  readonly createTime: number;
  readonly updateTime: number;
  /**
   * The time until which at least one replaced secret still signs messages. Undefined if only the current secret signs.
   */
  readonly previousSecretExpireTime: number | undefined;
  readonly lastSuccessTime: number | undefined;
  /**
   * The time of the first failure after the last success or the last change of the webhook. Undefined if no attempt has
   * failed since then.
   */
  readonly failingSince: number | undefined;
  readonly failedAttempts: number;
  /** The earliest time of the next attempt. Undefined if `failingSince` is undefined. */
  readonly nextAttemptTime: number | undefined;
}

export type NewWebhook = Pick<Webhook, "displayName" | "url" | "eventTypes">;

/**
 * A change of a webhook. An omitted value does not change. Every change also ends the delay that follows a failed
 * attempt.
 */
export interface WebhookChange extends Partial<NewWebhook> {
  readonly state?: "enabled" | "disabled";
}

export interface Delivery {
  readonly time: number;
  readonly eventId: string;
  readonly eventType: string;
  /** The number of this attempt to deliver the event, from 1. */
  readonly attempt: number;
  readonly outcome: DeliveryOutcome;
  readonly status: number | undefined;
  readonly durationMs: number;
}

export type SendResult = Pick<Delivery, "outcome" | "status" | "durationMs">;

/** A webhook, with the secrets that sign its deliveries. */
export interface WebhookTarget {
  readonly webhook: Webhook;
  /**
   * The secrets that sign each message. The current secret is the first. Empty if the current secret cannot be
   * decrypted.
   */
  readonly secrets: readonly string[];
}

/**
 * A store of webhooks. The store throws the errors of a `UserGroupStore`. Every change is written in one atomic step
 * with its audit event. Every method with a parameter `id` throws WebhookNotFound.
 */
export interface WebhookStore {
  /**
   * Creates a webhook that receives the events after its creation. Only the result contains the secret.
   *
   * @throws TooManyWebhooks
   */
  create(environment: Environment, values: NewWebhook, by: ChangeBy): Promise<WebhookWithSecret>;
  get(environment: Environment, id: string): Promise<Webhook>;
  /** Lists all webhooks of an environment in the order of their ids. */
  list(environment: Environment): Promise<readonly Webhook[]>;
  update(environment: Environment, id: string, change: WebhookChange, by: ChangeBy): Promise<Webhook>;
  delete(environment: Environment, id: string, by: ChangeBy): Promise<void>;
  /**
   * Creates a new secret. Only the result contains the new secret. Each replaced secret still signs messages for
   * `SECRET_GRACE_MS` after its replacement.
   */
  rotateSecret(environment: Environment, id: string, by: ChangeBy): Promise<WebhookWithSecret>;
  /** Lists the last delivery attempts, the newest first. */
  deliveries(environment: Environment, id: string): Promise<readonly Delivery[]>;
  /**
   * Moves the cursor back to a time (in milliseconds since 1970), so that the events since this time are delivered
   * again. Ends the delay that follows a failed attempt. Never moves the cursor forward.
   */
  rewind(environment: Environment, id: string, time: number, by: ChangeBy): Promise<Webhook>;
  /** Begins a test. @throws WebhookTestLimited if a test in the environment began less than `TEST_INTERVAL_MS` ago */
  beginTest(environment: Environment, id: string): Promise<WebhookTarget>;
}

interface WebhookWithSecret {
  readonly webhook: Webhook;
  readonly secret: string;
}

/** A webhook that has events after its cursor. These events may have types that the webhook does not receive. */
export interface DueWebhook {
  readonly id: string;
  readonly cursor: number;
  /** Whether a worker may claim the webhook now: no worker holds the lease, and no failure delays the next attempt. */
  readonly isFree: boolean;
  /** The time of the event whose delivery failed. Undefined if no attempt failed since the last success or change. */
  readonly failedEventTime: number | undefined;
}

interface DueWebhooks {
  /** The time of the read by Redis' clock, in milliseconds since 1970. */
  readonly now: number;
  /** The time of the last `beginCheck`. Undefined before the first check. */
  readonly checkTime: number | undefined;
  readonly webhooks: readonly DueWebhook[];
}

/** An event that was sent, and the result of the attempt. */
export interface Attempt extends SendResult, Pick<Delivery, "eventId" | "eventType"> {
  readonly eventTime: number;
  /** The delay after which the event is sent again if this attempt failed, in milliseconds. */
  readonly retryMs: number;
}

/** The result of one step of a delivery: an attempt, skipped events, or both. */
export interface Settlement {
  readonly from: EventStart;
  /** The position after the last event that was delivered or needs no delivery. */
  readonly to: EventStart;
  readonly attempt?: Attempt | undefined;
  /** Whether `settle` releases the lease. After a failed attempt, `settle` always releases the lease. */
  readonly release: boolean;
}

/** A worker's lease of a webhook. */
export interface Claim {
  readonly environment: Environment;
  readonly id: string;
  /** The name of the holder. Each claim has a different name. */
  readonly holder: string;
}

/**
 * The state of deliveries. One worker at a time holds the lease of a webhook, and only this worker moves the cursor
 * forward. The lease expires `LEASE_MS` after the claim or the last settlement. A settlement can release the lease.
 */
export interface DeliveryStore {
  /** Lists the environments that have or had webhooks. */
  environments(page: PageRequest): Promise<Page<Environment>>;

  /** Reads the enabled webhooks with events after their cursors. Returns undefined if the environment is not active. */
  due(environment: Environment): Promise<DueWebhooks | undefined>;

  /** If the environment is deleted, removes it from the list that `environments` returns. */
  forget(environment: Environment): Promise<void>;

  /** Claims the lease. Returns undefined if another worker has the lease, or if no delivery may start now. */
  claim(claim: Claim): Promise<WebhookTarget | undefined>;
  /**
   * Stores the result of one step of a delivery. If the step has no failed attempt, moves the cursor from `from` to
   * `to`. If another call has moved the cursor in the meantime, the cursor does not change. If the attempt failed, and
   * the first failure since the last success or change was at least `DISABLE_AFTER_MS` ago, disables the webhook, and
   * writes an audit event.
   *
   * @returns the webhook after the change. Undefined if the worker no longer holds the lease
   */
  settle(claim: Claim, settlement: Settlement): Promise<WebhookTarget | undefined>;

  /**
   * Begins the regular check of an environment (see `CHECK_INTERVAL_MS`), and returns true. Sets the cursor time of
   * webhooks without undelivered events to now, so that their cursors do not expire. If the last check began less than
   * `CHECK_INTERVAL_MS` ago, does nothing and returns false.
   */
  beginCheck(environment: Environment): Promise<boolean>;

  /**
   * Writes an `api_token.expiring` event, which reports that the API token expires within `days` days, and returns
   * true. If the API token no longer has the expiry time `expireTime`, or if an earlier event reported this expiry time
   * with the same or a smaller number of days, writes no event and returns false.
   */
  noteExpiry(
    environment: Environment,
    apiToken: { readonly id: string; readonly expireTime: number },
    days: number,
  ): Promise<boolean>;
}

/** The duration of a lease, in milliseconds. A lease lasts longer than an attempt (`DELIVERY_TIMEOUT_MS`). */
export const LEASE_MS = 30_000;

export const DELIVERY_TIMEOUT_MS = 10_000;

/** The interval at which the service checks an environment for API tokens that expire soon, in milliseconds. */
export const CHECK_INTERVAL_MS = HOUR_MS;

/** The minimum time between two webhook tests of an environment, in milliseconds. */
export const TEST_INTERVAL_MS = 5000;

/** The remaining lifetimes, in days, at which the service reports that an API token will expire. */
export const EXPIRY_DAYS = [30, 7, 1] as const;

const SECRET_BYTES = 32;

/** Generates a secret in the form of Standard Webhooks. */
export function newWebhookSecret(): string {
  return WEBHOOK_SECRET_PREFIX + randomBytes(SECRET_BYTES).toString("base64");
}
