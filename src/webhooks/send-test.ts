import type { Network } from "../domain/client-address.ts";
import type { Environment } from "../domain/environment.ts";
import { newWebhookId, type TestResult, type WebhookTarget } from "../domain/webhook.ts";
import { sendEvent, TEST_TYPE } from "./payload.ts";
import { Sender } from "./sender.ts";

/** Sends the message of a test to a webhook, which need not be enabled. */
export async function sendTest(
  environment: Environment,
  target: WebhookTarget,
  allowed: readonly Network[],
): Promise<TestResult> {
  const event = { id: `test-${newWebhookId()}`, type: TEST_TYPE, time: Date.now(), webhookId: target.webhook.id };
  const sender = new Sender({ allowed });
  try {
    return await sendEvent(sender, environment, target, { event });
  } finally {
    sender.close();
  }
}
