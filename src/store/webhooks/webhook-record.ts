import type { Environment } from "../../domain/environment.ts";
import { RecordUnreadable } from "../../domain/errors.ts";
import {
  type Attempt,
  DELIVERY_OUTCOMES,
  type Delivery,
  WEBHOOK_STATES,
  type Webhook,
  type WebhookTarget,
} from "../../domain/webhook.ts";
import type { TokenCipher } from "../encryption.ts";
import {
  integerOf,
  optionalIntegerOf,
  type ReadRecord,
  recordFromFields,
  type StoredRecord,
  textOf,
} from "../records.ts";

interface StoredSecret {
  /** A result of `TokenCipher.seal`. */
  readonly sealed: string;
  /** The expiry time of a replaced secret. Undefined for the current secret. */
  readonly expireTime: number | undefined;
}

interface WebhookContext {
  readonly cipher: TokenCipher;
  readonly environment: Environment;
}

/** Returns the name with which `TokenCipher.seal` encrypts the secrets of a webhook. */
export function secretNameOf(id: string): string {
  return `webhook ${id}`;
}

/**
 * Parses `KEY.TEXT,KEY.TEXT:EXPIRES`. Returns the secrets that are valid at the time `now`. The first secret is the
 * current secret.
 */
export function validSecrets(record: StoredRecord, now: number, what: string): readonly StoredSecret[] {
  return textOf(record, "secrets", what)
    .split(",")
    .map((each) => {
      const [sealed = "", expires] = each.split(":");
      return { sealed, expireTime: expires === undefined ? undefined : Number(expires) };
    })
    .filter(({ expireTime = now + 1 }) => expireTime > now);
}

/** Formats secrets for `validSecrets`. */
export function formatSecrets(secrets: readonly StoredSecret[]): string {
  return secrets
    .map(({ sealed, expireTime }) => (expireTime === undefined ? sealed : `${sealed}:${expireTime}`))
    .join(",");
}

/** Decodes a webhook. The secrets of the webhook may be unreadable. @throws RecordUnreadable */
export function targetFrom(
  { cipher, environment }: WebhookContext,
  id: string,
  { record, now }: ReadRecord,
): WebhookTarget {
  const what = `the webhook ${id}`;
  const stored = WEBHOOK_STATES.find((each) => each === record["state"]);
  if (!stored) throw new RecordUnreadable(new Error(`${what} has no known state`));
  const types = textOf(record, "event_types", what);
  const [current, ...replaced] = validSecrets(record, now, what);
  const secretOf = ({ sealed }: StoredSecret) => cipher.unseal(environment, secretNameOf(id), sealed);
  const secret = current && secretOf(current);
  const others = replaced.flatMap((each) => secretOf(each) ?? []);
  const latest = Math.max(...replaced.map(({ expireTime = 0 }) => expireTime), 0);
  const cursorTime = textOf(record, "cursor_time", what);
  const webhook: Webhook = {
    id,
    displayName: textOf(record, "display_name", what),
    url: textOf(record, "url", what),
    eventTypes: types === "" ? [] : types.split(","),
    state: stored === "enabled" && secret === undefined ? "secret_unreadable" : stored,
    createTime: integerOf(record, "create_time", what),
    updateTime: integerOf(record, "update_time", what),
    previousSecretExpireTime: latest === 0 ? undefined : latest,
    cursor: integerOf(record, "cursor", what),
    cursorTime: cursorTime === "" ? undefined : integerOf(record, "cursor_time", what),
    lastSuccessTime: optionalIntegerOf(record, "last_success_time", what),
    failingSince: optionalIntegerOf(record, "failing_since", what),
    failedAttempts: optionalIntegerOf(record, "failed_attempts", what) ?? 0,
    nextAttemptTime: optionalIntegerOf(record, "next_attempt_time", what),
  };
  return { webhook, secrets: secret === undefined ? [] : [secret, ...others] };
}

/** Formats an attempt for the log of deliveries: `EVENT TYPE OUTCOME STATUS MILLISECONDS`. */
export function entryOf({ eventId, eventType, outcome, status, durationMs }: Attempt): string {
  return [eventId, eventType, outcome, status ?? "-", Math.round(durationMs)].join(" ");
}

export function deliveryFrom([streamId, fields]: readonly [string, readonly string[]]): Delivery {
  const record = recordFromFields(fields);
  const [eventId = "", eventType = "", outcome, status, duration] = textOf(record, "d", "a delivery").split(" ");
  return {
    time: Math.floor(Number.parseInt(streamId, 10) / 1000),
    eventId,
    eventType,
    attempt: integerOf(record, "n", "a delivery"),
    outcome: DELIVERY_OUTCOMES.find((each) => each === outcome) ?? "connection",
    status: status === "-" ? undefined : Number(status),
    durationMs: Number(duration),
  };
}
