import { createHmac } from "node:crypto";
import { WEBHOOK_SECRET_PREFIX } from "../domain/webhook.ts";

/** A message to sign, as in Standard Webhooks. */
export interface Signable {
  /** The id of the message. All attempts to deliver an event use the same id. */
  readonly id: string;
  /** The time of the attempt, in seconds since 1970. */
  readonly timestamp: number;
  readonly body: string;
}

/** Returns the headers of Standard Webhooks (https://www.standardwebhooks.com), with one signature per secret. */
export function signedHeaders(message: Signable, secrets: readonly string[]): { readonly [name: string]: string } {
  return {
    "webhook-id": message.id,
    "webhook-timestamp": String(message.timestamp),
    "webhook-signature": secrets.map((secret) => signatureOf(message, secret)).join(" "),
  };
}

function signatureOf({ id, timestamp, body }: Signable, secret: string): string {
  const key = Buffer.from(secret.slice(WEBHOOK_SECRET_PREFIX.length), "base64");
  return `v1,${createHmac("sha256", key).update(`${id}.${timestamp}.${body}`).digest("base64")}`;
}
