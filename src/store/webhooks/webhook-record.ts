import type { Environment } from "../../domain/environment.ts";
import { RecordUnreadable } from "../../domain/errors.ts";
import {
  DELIVERY_OUTCOMES,
  type Delivery,
  WEBHOOK_STATES,
  type Webhook,
  type WebhookTarget,
} from "../../domain/webhook.ts";
import type { TokenCipher } from "../encryption.ts";
import { integerOf, optionalIntegerOf, recordFromAnswer, type StoredRecord, textOf } from "../records.ts";

/** A secret as a record holds it. */
interface StoredSecret {
  readonly keyId: string;
  readonly text: string;
  /** Undefined for the current secret. */
  readonly expireTime: number | undefined;
}

/** Encrypts a new secret of a webhook. */
export function sealSecret(cipher: TokenCipher, environment: Environment, id: string, secret: string): StoredSecret {
  const { keyId, text } = cipher.seal(environment, nameOf(id), secret);
  return { keyId, text, expireTime: undefined };
}

/** The name of a secret in `TokenCipher.seal`. */
function nameOf(id: string): string {
  return `webhook ${id}`;
}

/** Parses the field `secrets`: `KEY.TEXT,KEY.TEXT:EXPIRES`, the current secret first. */
export function storedSecrets(record: StoredRecord, what: string): readonly StoredSecret[] {
  return textOf(record, "secrets", what)
    .split(",")
    .map((each) => {
      const [sealed = "", expires] = each.split(":");
      const [keyId = "", text = ""] = sealed.split(".");
      return { keyId, text, expireTime: expires === undefined ? undefined : Number(expires) };
    });
}

/** Formats secrets as `storedSecrets` parses them. */
export function formatSecrets(secrets: readonly StoredSecret[]): string {
  return secrets
    .map(({ keyId, text, expireTime }) => `${keyId}.${text}${expireTime === undefined ? "" : `:${expireTime}`}`)
    .join(",");
}

/** Decrypts a secret. @throws RecordUnreadable */
export function unsealSecret(
  cipher: TokenCipher,
  environment: Environment,
  id: string,
  secret: Pick<StoredSecret, "keyId" | "text">,
): string {
  return cipher.unseal(environment, nameOf(id), secret);
}

/** The webhook of an answer that has Redis' clock and the record. @throws RecordUnreadable */
export function webhookFromAnswer(id: string, answer: readonly string[]): Webhook {
  return webhookFrom(id, recordFromAnswer(answer), Number(answer[1]));
}

/** @param now Redis' clock. @throws RecordUnreadable */
export function webhookFrom(id: string, record: StoredRecord, now: number): Webhook {
  const what = `the webhook ${id}`;
  const state = WEBHOOK_STATES.find((each) => each === record["state"]);
  if (!state) throw new RecordUnreadable(new Error(`${what} has no known state`));
  const types = textOf(record, "event_types", what);
  const expiries = storedSecrets(record, what).flatMap(({ expireTime }) => expireTime ?? []);
  const latest = Math.max(...expiries, 0);
  const cursorTime = textOf(record, "cursor_time", what);
  return {
    id,
    displayName: textOf(record, "display_name", what),
    url: textOf(record, "url", what),
    eventTypes: types === "" ? [] : types.split(","),
    state,
    createTime: integerOf(record, "create_time", what),
    updateTime: integerOf(record, "update_time", what),
    previousSecretExpireTime: latest > now ? latest : undefined,
    cursor: integerOf(record, "cursor", what),
    cursorTime: cursorTime === "" ? undefined : integerOf(record, "cursor_time", what),
    lastSuccessTime: optionalIntegerOf(record, "last_success_time", what),
    failingSince: optionalIntegerOf(record, "failing_since", what),
    failedAttempts: optionalIntegerOf(record, "failed_attempts", what) ?? 0,
    nextAttemptTime: optionalIntegerOf(record, "next_attempt_time", what),
  };
}

/** The webhook of an answer, with the secrets that sign. @throws RecordUnreadable */
export function targetFrom(
  cipher: TokenCipher,
  environment: Environment,
  id: string,
  answer: readonly string[],
): WebhookTarget {
  const [record, now] = [recordFromAnswer(answer), Number(answer[1])];
  const webhook = webhookFrom(id, record, now);
  const secrets = storedSecrets(record, `the webhook ${id}`)
    .filter(({ expireTime = Number.POSITIVE_INFINITY }) => expireTime > now)
    .map((secret) => unsealSecret(cipher, environment, id, secret));
  return { webhook, secrets };
}

/** Formats an attempt for the log of deliveries: `EVENT TYPE OUTCOME STATUS MILLISECONDS`. */
export function entryOf({
  eventId,
  eventType,
  outcome,
  status,
  durationMs,
}: Pick<Delivery, "eventId" | "eventType" | "outcome" | "status" | "durationMs">): string {
  return [eventId, eventType, outcome, status ?? "-", Math.round(durationMs)].join(" ");
}

/** Parses an entry of the log of deliveries. */
export function deliveryFrom([streamId, fields]: readonly [string, readonly string[]]): Delivery {
  const record = recordFromAnswer(fields, 0);
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
