import { setMaxListeners } from "node:events";
import { setTimeout as pause } from "node:timers/promises";
import type { ApiTokenStore } from "../domain/api-token.ts";
import type { Network } from "../domain/client-address.ts";
import type { Environment } from "../domain/environment.ts";
import { EventCursorExpired } from "../domain/errors.ts";
import { type EventPage, type EventStart, positionAfter } from "../domain/events.ts";
import type { EventStore } from "../domain/store.ts";
import { randomBase62 } from "../domain/token.ts";
import {
  type Attempt,
  CHECK_INTERVAL_MS,
  type Claim,
  DELIVERY_TIMEOUT_MS,
  type DeliveryOutcome,
  type DeliveryPosition,
  type DeliveryStore,
  type DueWebhook,
  EXPIRY_DAYS,
  LEASE_MS,
  type Settlement,
  type WebhookTarget,
  wants,
} from "../domain/webhook.ts";
import { MISSED_TYPE, messageOf, type SentEvent } from "./payload.ts";
import { type Resolve, Sender } from "./sender.ts";

/*
 * A change writes nothing for webhooks. Each worker polls for webhooks whose cursor is older than the last event of their environment.
 * It claims the lease of such a webhook, reads the events after the cursor, and sends one after the other. After each one it moves the
 * cursor, which also extends the lease. After a failure it gives back the lease, and any worker claims it after the backoff.
 */

/** The minimum time between two polls, in milliseconds. */
const POLL_MS = 1000;

/** The minimum time of a poll per environment, in milliseconds. So a worker reads at most 500 environments per second. */
const POLL_MS_PER_ENVIRONMENT = 2;

/** The maximum number of webhooks that a worker delivers to concurrently, and of those whose last attempt failed. */
export const MAX_ACTIVE = 200;
const MAX_FAILING = 100;

/** The number of environments that are read concurrently, and per page. */
const READ_AT_ONCE = 16;
const PAGE_SIZE = 1000;

/** The number of events that a webhook holds in memory. */
const EVENTS_AT_ONCE = 50;

/** If the worker delivers to `MAX_ACTIVE` webhooks, each of them releases its lease after this time, in milliseconds. */
const TURN_MS = 5000;

/** The delays after failures, in milliseconds: the first, and the maximum. Each is twice the one before it, with jitter. */
const FIRST_RETRY_MS = 5000;
const MAX_RETRY_MS = 3_600_000;

/** The remaining time of a lease in which no delivery begins, in milliseconds: the timeout of a delivery, and a margin. */
const LEASE_RESERVE_MS = DELIVERY_TIMEOUT_MS + 5000;

/**
 * The events before a gap that are delivered again, in microseconds: after a failover that lost events, later events can have lower ids.
 */
const OVERLAP_MICROS = 60_000_000;

/** How long a shutdown waits for deliveries, in milliseconds. */
const CLOSE_MS = 1000;

const DAY_MS = 86_400_000;

/** The number of API tokens per page of the check of expiry times. */
const TOKENS_AT_ONCE = 500;

interface EngineDeps {
  readonly store: DeliveryStore;
  readonly events: EventStore;
  readonly apiTokens: Pick<ApiTokenStore, "list">;
  /** `WEBHOOK_ALLOW`. */
  readonly allowed: readonly Network[];
  readonly resolve?: Resolve | undefined;
  readonly observer: DeliveryObserver;
  /** Times for tests, in milliseconds. Default: `POLL_MS`, `FIRST_RETRY_MS` and `DELIVERY_TIMEOUT_MS`. */
  readonly times?: { readonly pollMs?: number; readonly retryMs?: number; readonly timeoutMs?: number };
}

/** Receives results of deliveries. */
export interface DeliveryObserver {
  attempted(outcome: DeliveryOutcome): void;
  /** The webhook is disabled after three days of failures. */
  disabled(environment: Environment, id: string): void;
  /** Events were removed before they were delivered. */
  missed(environment: Environment, id: string): void;
}

/** An environment with undelivered events. */
export interface Lag {
  readonly environment: Environment;
  /** The age of the oldest undelivered event, in milliseconds. */
  readonly ageMs: number;
}

/** A webhook that lags behind, as a poll has found it. */
interface Candidate {
  readonly environment: Environment;
  readonly webhook: DueWebhook;
  /** The time of the event that failed, or of the first poll that found the webhook at this cursor. */
  readonly since: number;
  /** The time of the poll. */
  readonly now: number;
}

/** Delivers the events of all environments to their webhooks, together with the engines of other workers. */
export class DeliveryEngine {
  private readonly deps: EngineDeps;
  private readonly closing = new AbortController();
  /** Aborts the deliveries in flight. */
  private readonly aborted = new AbortController();
  /** The webhooks that this worker delivers to, and whether their last attempt failed. */
  private readonly active = new Map<string, boolean>();
  private readonly running = new Set<Promise<void>>();
  private lagging: ReadonlyMap<string, Candidate> = new Map();
  private isStarted = false;

  constructor(deps: EngineDeps) {
    this.deps = deps;
    // Every delivery in flight adds a listener.
    setMaxListeners(0, this.aborted.signal);
  }

  /** Begins to poll. */
  start(): void {
    if (!this.isStarted) void this.run();
    this.isStarted = true;
  }

  /** Stops polling, and ends the deliveries. Those that take longer than `CLOSE_MS` are repeated by another worker. */
  async close(): Promise<void> {
    this.closing.abort();
    const timer = setTimeout(() => this.aborted.abort(), CLOSE_MS);
    // A poll in flight begins no delivery. It is not awaited, because the store may be away.
    await Promise.allSettled(this.running);
    clearTimeout(timer);
  }

  /** The environments with undelivered events, the oldest first. */
  lags(): readonly Lag[] {
    const oldest = new Map<number, Lag>();
    for (const { environment, since, now } of this.lagging.values()) {
      const ageMs = Math.max(now - since, 0);
      if (ageMs > (oldest.get(environment.number)?.ageMs ?? -1)) oldest.set(environment.number, { environment, ageMs });
    }
    return [...oldest.values()].sort((one, other) => other.ageMs - one.ageMs);
  }

  private async run(): Promise<void> {
    const { signal } = this.closing;
    while (!signal.aborted) {
      // While the store is away, the next poll tries again.
      const environments = await this.poll().catch(() => 0);
      const ms =
        Math.max(this.deps.times?.pollMs ?? POLL_MS, environments * POLL_MS_PER_ENVIRONMENT) *
        (0.75 + Math.random() / 2);
      await pause(ms, undefined, { signal, ref: false }).catch(() => {});
    }
  }

  /** Finds webhooks that lag behind, and delivers to as many as possible. @returns the number of environments */
  private async poll(): Promise<number> {
    const { store } = this.deps;
    const found = new Map<string, Candidate>();
    let count = 0;
    for (let after: string | undefined = ""; after !== undefined && !this.closing.signal.aborted; ) {
      const { items, next }: Awaited<ReturnType<DeliveryStore["environments"]>> = await store.environments({
        after,
        size: PAGE_SIZE,
      });
      for (let at = 0; at < items.length; at += READ_AT_ONCE) {
        const batch = items.slice(at, at + READ_AT_ONCE);
        // A shard that is down must not stop the deliveries of others.
        await Promise.all(batch.map((environment) => this.visit(environment, found).catch(() => {})));
      }
      count += items.length;
      after = next;
    }
    this.lagging = found;
    const waiting = [...found.values()].filter(({ webhook }) => webhook.isFree && !this.active.has(webhook.id));
    const failed = ({ webhook }: Candidate) => Number(webhook.failedEventTime !== undefined);
    waiting.sort((one, other) => failed(one) - failed(other) || one.since - other.since);
    for (const candidate of waiting) this.begin(candidate);
    return count;
  }

  private async visit(environment: Environment, found: Map<string, Candidate>): Promise<void> {
    const { store } = this.deps;
    const due = await store.due(environment);
    if (!due) return store.forget(environment);
    const { now, checkTime = 0 } = due;
    for (const webhook of due.webhooks) {
      const before = this.lagging.get(webhook.id);
      const seen = before?.webhook.cursor === webhook.cursor ? before.since : now;
      found.set(webhook.id, { environment, webhook, since: webhook.failedEventTime ?? seen, now });
    }
    if (now - checkTime >= CHECK_INTERVAL_MS || checkTime > now) await this.check(environment);
  }

  /** Delivers to a webhook in the background, unless this worker delivers to too many. */
  private begin({ environment, webhook }: Candidate): void {
    if (this.closing.signal.aborted || this.active.size >= MAX_ACTIVE) return;
    const isFailing = webhook.failedEventTime !== undefined;
    if (isFailing && [...this.active.values()].filter(Boolean).length >= MAX_FAILING) return;
    this.active.set(webhook.id, isFailing);
    const claim = { environment, id: webhook.id, holder: randomBase62(16) };
    // After an error of the store, a poll finds the webhook again.
    const work = this.deliver(claim)
      .catch(() => {})
      .finally(() => {
        this.active.delete(webhook.id);
        this.running.delete(work);
      });
    this.running.add(work);
  }

  private async deliver(claim: Claim): Promise<void> {
    const { store, allowed, resolve, times } = this.deps;
    let leased = performance.now();
    let target = await store.claim(claim);
    if (!target) return;
    const turnEnd = leased + TURN_MS;
    const sender = new Sender({ allowed, resolve, timeoutMs: times?.timeoutMs });
    /** Stores a result. @returns whether to continue with the next event of the page */
    const settle = async ({ from, to, attempt, release }: Settlement): Promise<boolean> => {
      const begun = performance.now();
      const isReleased = release || (attempt !== undefined && attempt.outcome !== "delivered");
      const next = await store.settle(claim, { from, to, attempt, release: isReleased });
      if (attempt) this.observe(claim, attempt, next);
      leased = begun;
      target = isReleased ? undefined : next;
      return target?.webhook.cursor === to.cursor && target.webhook.state === "enabled";
    };
    const isOver = () => this.closing.signal.aborted || (performance.now() > turnEnd && this.active.size >= MAX_ACTIVE);
    try {
      while (target?.webhook.state === "enabled") {
        const from: DeliveryPosition = target.webhook;
        const page = await this.read(claim, from);
        if (!page) {
          const missed: SentEvent = { id: `missed-${from.cursor}`, type: MISSED_TYPE, time: Date.now() };
          const attempt = await this.send(claim, target, missed, { sender, leased });
          const cursor = Math.max(from.cursor - OVERLAP_MICROS, 0);
          await settle({ from, to: { cursor, cursorTime: undefined }, attempt, release: isOver() });
          continue;
        }
        let isCurrent = true;
        for (const event of page.events) {
          if (!wants(target.webhook, event.type)) continue;
          const attempt: Attempt = await this.send(claim, target, event, { sender, leased });
          const { id: cursor, time: cursorTime } = positionAfter(event, claim.environment);
          isCurrent = await settle({ from: target.webhook, to: { cursor, cursorTime }, attempt, release: isOver() });
          if (!isCurrent) break;
        }
        if (!isCurrent) continue;
        const { id: cursor, time: cursorTime } = page.next;
        await settle({ from: target.webhook, to: { cursor, cursorTime }, release: !page.hasMore || isOver() });
      }
    } finally {
      sender.close();
      // Gives back the lease. The position stays.
      const position = target?.webhook;
      if (position) await store.settle(claim, { from: position, to: position, release: true }).catch(() => {});
    }
  }

  /** Reads the events after a position. Undefined if some of them were removed. */
  private async read({ environment }: Claim, { cursor, cursorTime }: DeliveryPosition): Promise<EventPage | undefined> {
    const { number } = environment;
    const start: EventStart =
      cursorTime === undefined ? { since: cursor / 1000 } : { number, id: cursor, time: cursorTime };
    return this.deps.events.readEvents(environment, start, EVENTS_AT_ONCE).catch((error: unknown) => {
      if (error instanceof EventCursorExpired) return undefined;
      throw error;
    });
  }

  /** Sends an event. @throws Error if the lease ends too early, or the engine is closed */
  private async send(
    { environment }: Claim,
    { webhook, secrets }: WebhookTarget,
    event: SentEvent,
    { sender, leased }: { readonly sender: Sender; readonly leased: number },
  ): Promise<Attempt> {
    if (performance.now() - leased > LEASE_MS - LEASE_RESERVE_MS) throw new Error("the lease ends too early");
    const message = messageOf(environment, event, { url: webhook.url, secrets });
    const result = await sender.send(message, this.aborted.signal);
    const retryMs = retryDelayMs(webhook.failedAttempts, this.deps.times?.retryMs);
    return { ...result, eventId: event.id, eventType: event.type, eventTime: event.time, retryMs };
  }

  private observe({ environment, id }: Claim, attempt: Attempt, next: WebhookTarget | undefined): void {
    const { observer } = this.deps;
    const { outcome, eventType } = attempt;
    observer.attempted(outcome);
    if (outcome === "delivered" && eventType === MISSED_TYPE) observer.missed(environment, id);
    if (next?.webhook.state === "failed") observer.disabled(environment, id);
  }

  /** Writes the events of API tokens that expire soon. */
  private async check(environment: Environment): Promise<void> {
    const { store, apiTokens } = this.deps;
    if (!(await store.beginCheck(environment))) return;
    for (let after: string | undefined = ""; after !== undefined; ) {
      const { items, next }: Awaited<ReturnType<ApiTokenStore["list"]>> = await apiTokens.list(
        environment,
        {},
        { after, size: TOKENS_AT_ONCE },
      );
      for (const { id, expireTime } of items) {
        const days = expireTime === undefined ? undefined : expiryDaysOf(expireTime - Date.now());
        if (expireTime !== undefined && days !== undefined)
          await store.noteExpiry(environment, { id, expireTime }, days);
      }
      after = next;
    }
  }
}

/** The delay before the next attempt, in milliseconds. @param failed the number of failed attempts before this one */
export function retryDelayMs(failed: number, firstMs = FIRST_RETRY_MS): number {
  const full = Math.min(firstMs * 2 ** Math.min(failed, 30), MAX_RETRY_MS);
  return full * (0.5 + Math.random() / 2);
}

/** The entry of `EXPIRY_DAYS` for a remaining lifetime. Undefined if no entry is reached. */
export function expiryDaysOf(remainingMs: number): number | undefined {
  return EXPIRY_DAYS.findLast((days) => remainingMs <= days * DAY_MS);
}
