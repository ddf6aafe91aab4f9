import type { Network } from "../domain/client-address.ts";
import { HOUR_MS } from "../domain/durations.ts";
import { EventCursorExpired } from "../domain/errors.ts";
import { type EventPage, type EventStart, positionAfter } from "../domain/events.ts";
import type { EventStore } from "../domain/store.ts";
import {
  type Attempt,
  type Claim,
  DELIVERY_TIMEOUT_MS,
  type DeliveryStore,
  LEASE_MS,
  type Settlement,
  type WebhookTarget,
} from "../domain/webhook.ts";
import { MISSED_TYPE, type SentEvent, sendEvent } from "./payload.ts";
import { Sender } from "./sender.ts";

const EVENTS_AT_ONCE = 50;

/** The delay after the first failure and the maximum delay, in milliseconds. Each further failure doubles the delay. */
const FIRST_RETRY_MS = 5000;
const MAX_RETRY_MS = HOUR_MS;

/**
 * The minimum remaining time of the lease at the start of an attempt, in milliseconds. This time is longer than the
 * timeout of an attempt, so that the lease does not expire during an attempt.
 */
const LEASE_RESERVE_MS = DELIVERY_TIMEOUT_MS + 5000;

/**
 * If events are missing after the cursor, the cursor moves back by this time, in microseconds. A failover of Redis may
 * have lost these events, and later events can then have lower ids than the cursor.
 */
const OVERLAP_MICROS = 60_000_000;

export interface DeliveryDeps {
  readonly store: DeliveryStore;
  readonly events: EventStore;
  readonly allowed: readonly Network[];
  /**
   * Times for tests, in milliseconds. The defaults are `POLL_MS` of the engine, `FIRST_RETRY_MS` and
   * `DELIVERY_TIMEOUT_MS`.
   */
  readonly times?: { readonly pollMs?: number; readonly retryMs?: number; readonly timeoutMs?: number };
}

interface DeliveryRules {
  /** Returns whether to release the lease after the current event. */
  isOver(): boolean;
  readonly aborted: AbortSignal;
  /** Called after each attempt. `next` is the changed webhook, or undefined if this worker has lost the lease. */
  attempted(attempt: Attempt, next: WebhookTarget | undefined): void;
}

/** Sends the events of a webhook in order, while this worker has the lease of the webhook. */
export class Delivery {
  private readonly deps: DeliveryDeps;
  private readonly claim: Claim;
  private readonly rules: DeliveryRules;
  private readonly sender: Sender;
  /** The webhook. Undefined while this worker does not have the lease of the webhook. */
  private target: WebhookTarget | undefined;
  /**
   * The time at which the last request to claim or extend the lease was sent, from `performance.now()`. The lease is
   * valid for at least `LEASE_MS` after this time.
   */
  private leased = 0;

  constructor(deps: DeliveryDeps, claim: Claim, rules: DeliveryRules) {
    this.deps = deps;
    this.claim = claim;
    this.rules = rules;
    this.sender = new Sender({ allowed: deps.allowed, timeoutMs: deps.times?.timeoutMs });
  }

  /** Claims the lease, and sends events until no events are left, an attempt fails, or `isOver` returns true. */
  async run(): Promise<void> {
    const { store } = this.deps;
    this.leased = performance.now();
    this.target = await store.claim(this.claim);
    try {
      while (this.target && isOn(this.target)) {
        const page = await this.read(this.target.webhook);
        if (page) await this.sendPage(page);
        else await this.sendGap(this.target);
      }
    } finally {
      this.sender.close();
      // Release the lease, and leave the position unchanged.
      const position = this.target?.webhook;
      if (position) await store.settle(this.claim, { from: position, to: position, release: true }).catch(() => {});
    }
  }

  /** Returns events after a position. Returns undefined if some events after this position were removed or lost. */
  private read(start: EventStart): Promise<EventPage | undefined> {
    return this.deps.events.readEvents(this.claim.environment, start, EVENTS_AT_ONCE).catch((error: unknown) => {
      if (error instanceof EventCursorExpired) return undefined;
      throw error;
    });
  }

  /**
   * Sends an event of the page only if the webhook receives events of this type. Moves the cursor after each sent
   * event, and finally to the end of the page. Stops if another call, such as a redelivery, moves the cursor.
   */
  private async sendPage({ events, next, hasMore }: EventPage): Promise<void> {
    for (const event of events) {
      const { target } = this;
      if (!target || !isOn(target)) return;
      const { eventTypes } = target.webhook;
      if (eventTypes.length > 0 && !eventTypes.includes(event.type)) continue;
      const attempt = await this.send(target, event);
      const to = positionAfter(event);
      await this.settle({ from: target.webhook, to, attempt, release: this.rules.isOver() });
      if (this.target?.webhook.cursor !== to.cursor) return;
    }
    const { target } = this;
    if (!target) return;
    await this.settle({ from: target.webhook, to: next, release: !hasMore || this.rules.isOver() });
  }

  /** Sends a message that reports missing events, and moves the cursor back by `OVERLAP_MICROS`. */
  private async sendGap(target: WebhookTarget): Promise<void> {
    const from = target.webhook;
    const attempt = await this.send(target, { id: `missed-${from.cursor}`, type: MISSED_TYPE, time: Date.now() });
    const to = { cursor: Math.max(from.cursor - OVERLAP_MICROS, 0), cursorTime: undefined };
    await this.settle({ from, to, attempt, release: this.rules.isOver() });
  }

  /** Makes an attempt. @throws Error if the worker stops, or if the lease could expire during the attempt */
  private async send(target: WebhookTarget, event: SentEvent): Promise<Attempt> {
    if (performance.now() - this.leased > LEASE_MS - LEASE_RESERVE_MS)
      throw new Error("the lease could expire during an attempt");
    const { aborted: signal } = this.rules;
    const result = await sendEvent(this.sender, this.claim.environment, target, { event, signal });
    const retryMs = retryDelayMs(target.webhook.failedAttempts, this.deps.times?.retryMs);
    return { ...result, eventId: event.id, eventType: event.type, eventTime: event.time, retryMs };
  }

  private async settle(settlement: Settlement): Promise<void> {
    const { attempt } = settlement;
    const release = settlement.release || (attempt !== undefined && attempt.outcome !== "delivered");
    const begun = performance.now();
    const next = await this.deps.store.settle(this.claim, { ...settlement, release });
    if (attempt) this.rules.attempted(attempt, next);
    this.leased = begun;
    this.target = release ? undefined : next;
  }
}

/**
 * Returns whether to send events to a webhook. Returns true even if the secret of the webhook is unreadable. Each
 * attempt then fails with the outcome `secret`.
 */
function isOn({ webhook: { state } }: WebhookTarget): boolean {
  return state === "enabled" || state === "secret_unreadable";
}

/**
 * Returns the delay before the next attempt, in milliseconds: a random time from half of the full delay to the full
 * delay.
 *
 * @param failed the number of failed attempts before the current attempt
 */
function retryDelayMs(failed: number, firstMs = FIRST_RETRY_MS): number {
  const full = Math.min(firstMs * 2 ** Math.min(failed, 30), MAX_RETRY_MS);
  return full * (0.5 + Math.random() / 2);
}
