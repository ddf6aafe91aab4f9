import { randomBytes } from "node:crypto";
import type { ChangeBy } from "./audit.ts";
import { DAY_MS, HOUR_MS } from "./durations.ts";
import type { Environment } from "./environment.ts";
import type { Page, PageRequest } from "./page.ts";

/** The maximum number of webhooks of an environment. */
export const MAX_WEBHOOKS = 20;

/** The number of attempts in the delivery log of a webhook. */
export const MAX_DELIVERIES = 100;

/** The time for which a replaced secret still signs, in milliseconds. */
export const SECRET_GRACE_MS = DAY_MS;

/** The maximum number of secrets that sign: the current secret, and replaced secrets. */
export const MAX_SECRETS = 3;

/** The time after the first of consecutive failures at which a webhook is disabled, in milliseconds. */
export const DISABLE_AFTER_MS = 3 * DAY_MS;

/** The prefix of secrets (Standard Webhooks). */
export const WEBHOOK_SECRET_PREFIX = "whsec_";

/** The stored state of a webhook. `failed`: the service disabled it, because its deliveries failed for `DISABLE_AFTER_MS`. */
export const WEBHOOK_STATES = ["enabled", "disabled", "failed"] as const;

/** The state of a webhook. `unreadable`: the webhook is enabled, but its current secret cannot be decrypted. */
export type WebhookState = (typeof WEBHOOK_STATES)[number] | "unreadable";

/**
 * The result of an attempt: `delivered` after a status of 2xx, otherwise a class of failures that reveals nothing about
 * the network. `secret`: the message cannot be signed.
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

/** An endpoint that receives the events of an environment. Times are in milliseconds since 1970 by the store's clock. */
export interface Webhook {
  /** The id. It is not secret. */
  readonly id: string;
  readonly displayName: string;
  readonly url: string;
  /** The wanted event types. Empty for all types. */
  readonly eventTypes: readonly string[];
  readonly state: WebhookState;
  readonly createTime: number;
  readonly updateTime: number;
  /** The latest time at which a replaced secret still signs. Undefined if only the current secret signs. */
  readonly previousSecretExpireTime: number | undefined;
  /** The id of the event up to which all events are delivered, or a time in microseconds since 1970. */
  readonly cursor: number;
  /**
   * A time at which no event existed after the cursor. Undefined if `cursor` is a time. In this case, all events since
   * `cursor` are delivered.
   */
  readonly cursorTime: number | undefined;
  /** Undefined before the first delivery. */
  readonly lastSuccessTime: number | undefined;
  /** The time of the first failure in the current series of failures. Undefined if the last attempt succeeded. */
  readonly failingSince: number | undefined;
  /** The number of consecutive failed attempts. */
  readonly failedAttempts: number;
  /** The earliest time of the next attempt after a failure. */
  readonly nextAttemptTime: number | undefined;
}

/** The values of a new webhook. */
export type NewWebhook = Pick<Webhook, "displayName" | "url" | "eventTypes">;

/** A change of a webhook. Missing values stay the same. */
export interface WebhookChange extends Partial<NewWebhook> {
  /** Whether the webhook is enabled. True also ends the wait for the next attempt. */
  readonly isEnabled?: boolean;
}

/** An attempt to deliver an event. */
export interface Delivery {
  readonly time: number;
  readonly eventId: string;
  readonly eventType: string;
  /** The number of the attempt, from 1. */
  readonly attempt: number;
  readonly outcome: DeliveryOutcome;
  /** The HTTP status of the answer. Undefined if no answer arrived. */
  readonly status: number | undefined;
  readonly durationMs: number;
}

/** The result of a test. */
export type TestResult = Pick<Delivery, "outcome" | "status" | "durationMs">;

/** The destination of deliveries, with its secrets. */
export interface WebhookTarget {
  readonly webhook: Webhook;
  /** The secrets that sign, the current secret first. Empty if the current secret cannot be decrypted. */
  readonly secrets: readonly string[];
}

/**
 * The contract of a store of webhooks. The store throws the errors of a user group store. Every change is atomic with
 * its audit event. Every method that takes the id of a webhook throws WebhookNotFound.
 */
export interface WebhookStore {
  /** Creates a webhook, which receives the events after this change. Only the result has its secret. @throws TooManyWebhooks */
  create(environment: Environment, values: NewWebhook, by: ChangeBy): Promise<WebhookWithSecret>;
  get(environment: Environment, id: string): Promise<Webhook>;
  /** Lists all webhooks of an environment by their ids. */
  list(environment: Environment): Promise<readonly Webhook[]>;
  update(environment: Environment, id: string, change: WebhookChange, by: ChangeBy): Promise<Webhook>;
  delete(environment: Environment, id: string, by: ChangeBy): Promise<void>;
  /** Creates a new secret. The former secrets sign for `SECRET_GRACE_MS` after their replacement. Only the result has the secret. */
  rotateSecret(environment: Environment, id: string, by: ChangeBy): Promise<WebhookWithSecret>;
  /** Lists the last attempts, the newest first. */
  deliveries(environment: Environment, id: string): Promise<readonly Delivery[]>;
  /**
   * Moves the cursor back, so that the events from a time on are delivered again. It never moves the cursor ahead. It
   * also ends the wait for the next attempt.
   *
   * @param time in milliseconds since 1970
   */
  rewind(environment: Environment, id: string, time: number, by: ChangeBy): Promise<Webhook>;
  /** Returns the target of a test. @throws WebhookTestLimited if a webhook of the environment was tested in the last seconds */
  beginTest(environment: Environment, id: string): Promise<WebhookTarget>;
}

export interface WebhookWithSecret {
  readonly webhook: Webhook;
  readonly secret: string;
}

/** A webhook with events after its cursor: undelivered events, or events of types that the webhook does not want. */
export interface DueWebhook {
  readonly id: string;
  readonly cursor: number;
  /**
   * Whether a worker may claim the webhook now: no other worker has its lease, and no failure delays its next attempt.
   */
  readonly isFree: boolean;
  /** The time of the event whose delivery failed. Undefined if no delivery failed. */
  readonly failedEventTime: number | undefined;
}

/** The state of the webhooks of an environment. */
export interface DueWebhooks {
  /** Redis' clock, in milliseconds since 1970. */
  readonly now: number;
  /** The time of the last `beginCheck`. Undefined before the first check. */
  readonly checkTime: number | undefined;
  readonly webhooks: readonly DueWebhook[];
}

/** A position in the events of an environment: `cursor` and `cursorTime` of a webhook. */
export type DeliveryPosition = Pick<Webhook, "cursor" | "cursorTime">;

/** A sent event, and its result. */
export interface Attempt extends Pick<Delivery, "eventId" | "eventType" | "outcome" | "status" | "durationMs"> {
  /** The time of the event. */
  readonly eventTime: number;
  /** The delay before the next attempt if this attempt failed, in milliseconds. */
  readonly retryMs: number;
}

/** The result of a part of a delivery. */
export interface Settlement {
  readonly from: DeliveryPosition;
  /** The position up to which all events are delivered, or need no delivery. */
  readonly to: DeliveryPosition;
  /** Undefined if no event was sent. */
  readonly attempt?: Attempt | undefined;
  /** Whether to release the lease. A failed attempt always releases it. */
  readonly release: boolean;
}

/** A webhook whose lease a worker holds. */
export interface Claim {
  readonly environment: Environment;
  readonly id: string;
  /** The name of the holder. This name is different for each claim. */
  readonly holder: string;
}

/**
 * The contract of the state of deliveries. One worker at a time holds the lease of a webhook, for `LEASE_MS` after its claim or its last
 * settlement. Only the holder moves the cursor ahead.
 */
export interface DeliveryStore {
  /** Lists the environments that have or had webhooks. */
  environments(page: PageRequest): Promise<Page<Environment>>;

  /** Reads the enabled webhooks that lag behind the events. Undefined if the environment is not active. */
  due(environment: Environment): Promise<DueWebhooks | undefined>;

  /** Removes an environment from the list of `environments` if it is deleted. */
  forget(environment: Environment): Promise<void>;

  /** Claims the lease. Undefined if another worker has the lease, or if nothing may be delivered now. */
  claim(claim: Claim): Promise<WebhookTarget | undefined>;

  /**
   * Stores the result of an attempt. A success moves the cursor, unless another call has moved it in the meantime.
   * After `DISABLE_AFTER_MS` of failures, the webhook is disabled, with an audit event.
   *
   * @returns the webhook as it is now. Undefined if the worker no longer holds the lease
   */
  settle(claim: Claim, settlement: Settlement): Promise<WebhookTarget | undefined>;

  /**
   * Begins the regular check of an environment, unless a check began less than `CHECK_INTERVAL_MS` ago. For each
   * webhook without undelivered events, sets the time of the cursor to now. So the cursor does not become too old.
   */
  beginCheck(environment: Environment): Promise<boolean>;

  /**
   * Writes an audit event on an API token that expires in at most `days` days. It writes no second event for the same
   * expiry time and the same or more days. @returns whether it wrote an event
   */
  noteExpiry(
    environment: Environment,
    apiToken: { readonly id: string; readonly expireTime: number },
    days: number,
  ): Promise<boolean>;
}

/** How long a lease lasts, in milliseconds. A delivery takes at most `DELIVERY_TIMEOUT_MS`. */
export const LEASE_MS = 30_000;

/** The maximum duration of a delivery, in milliseconds. */
export const DELIVERY_TIMEOUT_MS = 10_000;

/** The interval of the regular checks of an environment, in milliseconds. */
export const CHECK_INTERVAL_MS = HOUR_MS;

/** The minimum time between two tests of webhooks of an environment, in milliseconds. */
export const TEST_INTERVAL_MS = 5000;

/** The remaining lifetimes of an API token, in days, at which the service reports the coming expiry. */
export const EXPIRY_DAYS = [30, 7, 1] as const;

/** The number of random bytes of a secret. */
const SECRET_BYTES = 32;

/** Generates a secret in the form of Standard Webhooks. */
export function newWebhookSecret(): string {
  return WEBHOOK_SECRET_PREFIX + randomBytes(SECRET_BYTES).toString("base64");
}

/** Whether a webhook wants events of a type. */
export function wants({ eventTypes }: Pick<Webhook, "eventTypes">, type: string): boolean {
  return eventTypes.length === 0 || eventTypes.includes(type);
}
