import { setMaxListeners } from "node:events";
import { setTimeout as pause } from "node:timers/promises";
import { type ApiTokenStore, MAX_API_TOKENS } from "../domain/api-token.ts";
import { DAY_MS } from "../domain/durations.ts";
import type { Environment } from "../domain/environment.ts";
import type { Page } from "../domain/page.ts";
import { randomBase62 } from "../domain/token.ts";
import {
  type Attempt,
  CHECK_INTERVAL_MS,
  type Claim,
  type DeliveryOutcome,
  type DueWebhook,
  EXPIRY_DAYS,
  type WebhookTarget,
} from "../domain/webhook.ts";
import { Delivery, type DeliveryDeps } from "./delivery.ts";
import { MISSED_TYPE } from "./payload.ts";

/*
 * Each worker polls for webhooks whose cursor is older than the last event of their environment. Because of these
 * polls, a change of a group writes no records for webhooks. The worker claims the lease of such a webhook, so that no
 * other worker sends the same events. The worker then sends the events after the cursor one by one. After each event,
 * the worker moves the cursor and extends the lease. After a failed attempt, the worker releases the lease. When the
 * delay before the next attempt has passed, any worker can claim the lease.
 */

/**
 * The minimum pause between two polls, in milliseconds. The worker then multiplies each pause by a random factor from
 * 0.75 to 1.25.
 */
const POLL_MS = 1000;

/**
 * The minimum pause after a poll, in milliseconds per environment that the poll has read. A worker therefore reads at
 * most about 500 environments per second.
 */
const POLL_MS_PER_ENVIRONMENT = 2;

/**
 * The maximum number of concurrent deliveries of a worker. At most `MAX_FAILING` of these deliveries are to webhooks
 * whose last attempt failed.
 */
export const MAX_ACTIVE = 200;
const MAX_FAILING = 100;

/** The number of environments that a poll reads concurrently, and the number of environments in a page. */
const READ_AT_ONCE = 16;
const PAGE_SIZE = 1000;

/**
 * While `MAX_ACTIVE` deliveries are in flight, a delivery releases its lease after this time, in milliseconds. The
 * worker can then deliver to another webhook.
 */
const TURN_MS = 5000;

/** The time after which a shutdown aborts the deliveries in flight, in milliseconds. */
const CLOSE_MS = 1000;

interface EngineDeps extends DeliveryDeps {
  readonly apiTokens: Pick<ApiTokenStore, "list">;
  readonly observer: DeliveryObserver;
}

interface DeliveryObserver {
  attempted(outcome: DeliveryOutcome): void;
  /** Called if the secret of a webhook cannot be decrypted. */
  unreadable(environment: Environment, id: string): void;
  /** Called if the expiry of an API token cannot be checked, because the record of the API token is damaged. */
  unreadableApiToken(environment: Environment, id: string): void;
  /** Called after the service has disabled a webhook, because its deliveries failed for three days. */
  disabled(environment: Environment, id: string): void;
  /** Called after a webhook has received the message that events were removed or lost before their delivery. */
  missed(environment: Environment, id: string): void;
}

interface Lag {
  readonly environment: Environment;
  /** The age of the oldest undelivered event, in milliseconds. */
  readonly ageMs: number;
}

interface Candidate {
  readonly environment: Environment;
  readonly webhook: DueWebhook;
  /**
   * If the last delivery failed, this is the time of the event that was not delivered. Otherwise, this is the time of
   * the first poll that read the current cursor of the webhook.
   */
  readonly since: number;
  readonly now: number;
}

/** Delivers events to the webhooks of all environments. Every worker has an engine, and leases prevent conflicts. */
export class DeliveryEngine {
  private readonly deps: EngineDeps;
  private readonly closing = new AbortController();
  private readonly aborted = new AbortController();
  /**
   * The deliveries in flight, by webhook id. `isFailing`: whether the previous attempt had failed when the delivery
   * began.
   */
  private readonly active = new Map<string, { readonly isFailing: boolean; readonly ended: Promise<unknown> }>();
  private lagging: ReadonlyMap<string, Candidate> = new Map();

  constructor(deps: EngineDeps) {
    this.deps = deps;
    // Every delivery in flight adds a listener. By default, Node warns if a signal has more than 10 listeners.
    setMaxListeners(0, this.aborted.signal);
  }

  /** Stops polling. After `CLOSE_MS`, aborts the deliveries in flight. Another worker repeats these deliveries. */
  async close(): Promise<void> {
    this.closing.abort();
    const timer = setTimeout(() => this.aborted.abort(), CLOSE_MS);
    // Do not wait for a poll in flight. The store may be down, and the poll begins no delivery after `closing.abort()`.
    await Promise.all([...this.active.values()].map(({ ended }) => ended));
    clearTimeout(timer);
  }

  /** Returns the environments with undelivered events. The environment with the oldest event is first. */
  lags(): readonly Lag[] {
    const oldest = new Map<number, Lag>();
    for (const { environment, since, now } of this.lagging.values()) {
      const ageMs = Math.max(now - since, 0);
      if (ageMs > (oldest.get(environment.number)?.ageMs ?? -1)) oldest.set(environment.number, { environment, ageMs });
    }
    return [...oldest.values()].sort((one, other) => other.ageMs - one.ageMs);
  }

  /** Delivers events until the engine closes. Never rejects. */
  async run(): Promise<void> {
    const { signal } = this.closing;
    while (!signal.aborted) {
      // Ignore errors of the store, because the next poll tries again.
      const environments = await this.poll().catch(() => 0);
      const ms =
        Math.max(this.deps.times?.pollMs ?? POLL_MS, environments * POLL_MS_PER_ENVIRONMENT) *
        (0.75 + Math.random() / 2);
      await pause(ms, undefined, { signal, ref: false }).catch(() => {});
    }
  }

  /** Begins deliveries to webhooks with undelivered events. @returns the number of environments that were read */
  private async poll(): Promise<number> {
    const { store } = this.deps;
    const found = new Map<string, Candidate>();
    let count = 0;
    for (let after: string | undefined = ""; after !== undefined && !this.closing.signal.aborted; ) {
      const { items, next }: Page<Environment> = await store.environments({ after, size: PAGE_SIZE });
      for (let at = 0; at < items.length; at += READ_AT_ONCE) {
        const batch = items.slice(at, at + READ_AT_ONCE);
        // Ignore errors here: if one shard is down, deliveries for environments on other shards must continue.
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

  private begin({ environment, webhook }: Candidate): void {
    if (this.closing.signal.aborted || this.active.size >= MAX_ACTIVE) return;
    const isFailing = webhook.failedEventTime !== undefined;
    if (isFailing && [...this.active.values()].filter((each) => each.isFailing).length >= MAX_FAILING) return;
    const claim = { environment, id: webhook.id, holder: randomBase62(16) };
    const turnEnd = performance.now() + TURN_MS;
    const delivery = new Delivery(this.deps, claim, {
      isOver: () => this.closing.signal.aborted || (performance.now() > turnEnd && this.active.size >= MAX_ACTIVE),
      aborted: this.aborted.signal,
      attempted: (attempt, next) => this.observe(claim, attempt, next),
    });
    // Ignore errors of the store, because the next poll finds the webhook again.
    const ended = delivery
      .run()
      .catch(() => {})
      .finally(() => this.active.delete(webhook.id));
    this.active.set(webhook.id, { isFailing, ended });
  }

  private observe({ environment, id }: Claim, attempt: Attempt, next: WebhookTarget | undefined): void {
    const { observer } = this.deps;
    const { outcome, eventType } = attempt;
    observer.attempted(outcome);
    if (outcome === "secret") observer.unreadable(environment, id);
    if (outcome === "delivered" && eventType === MISSED_TYPE) observer.missed(environment, id);
    if (next?.webhook.state === "failed") observer.disabled(environment, id);
  }

  /** Writes an event for each API token that expires soon. */
  private async check(environment: Environment): Promise<void> {
    const { store, apiTokens, observer } = this.deps;
    if (!(await store.beginCheck(environment))) return;
    const { items } = await apiTokens.list(environment, {}, { after: "", size: MAX_API_TOKENS }, (id) =>
      observer.unreadableApiToken(environment, id),
    );
    for (const { id, expireTime } of items) {
      if (expireTime === undefined) continue;
      // `EXPIRY_DAYS` is in descending order, so `findLast` finds the smallest matching entry.
      const days = EXPIRY_DAYS.findLast((entry) => expireTime - Date.now() <= entry * DAY_MS);
      if (days !== undefined) await store.noteExpiry(environment, { id, expireTime }, days);
    }
  }
}
