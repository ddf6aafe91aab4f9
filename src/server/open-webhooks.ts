import type { Config } from "../config/config.ts";
import type { ApiTokenStore } from "../domain/api-token.ts";
import { type Environment, formatEnvironmentName } from "../domain/environment.ts";
import type { EventStore } from "../domain/store.ts";
import { newResourceId } from "../domain/token.ts";
import { DELIVERY_OUTCOMES, type SendResult, type WebhookTarget } from "../domain/webhook.ts";
import type { Logger } from "../observability/log.ts";
import type { Metrics } from "../observability/metrics.ts";
import type { GroupDeps } from "../store/groups/group-record.ts";
import { redisDeliveries } from "../store/webhooks/deliveries.ts";
import { DeliveryEngine } from "../webhooks/engine.ts";
import { sendEvent, TEST_TYPE } from "../webhooks/payload.ts";
import { Sender } from "../webhooks/sender.ts";
import type { Lifecycle } from "./lifecycle.ts";

const MAX_LAGS = 20;

interface WebhookParts extends GroupDeps {
  readonly stores: { readonly auditTrail: EventStore; readonly apiTokens: ApiTokenStore };
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly lifecycle: Lifecycle;
}

/** @returns `start` begins to deliver events. `sendTest` sends a test message, even if the webhook is disabled */
export function openWebhooks(
  { webhookAllow: allowed, metricsPort }: Pick<Config, "webhookAllow" | "metricsPort">,
  { stores, logger, metrics, lifecycle, ...deps }: WebhookParts,
) {
  for (const outcome of DELIVERY_OUTCOMES) metrics.webhookAttempts.inc({ outcome }, 0);
  const fieldsOf = (environment: Environment, id: string) => ({
    environment: formatEnvironmentName(environment),
    webhook_id: id,
  });
  const engine = new DeliveryEngine({
    store: redisDeliveries(deps),
    events: stores.auditTrail,
    apiTokens: stores.apiTokens,
    allowed,
    observer: {
      attempted: (outcome) => metrics.webhookAttempts.inc({ outcome }),
      unreadable(environment, id) {
        const text =
          "the secret of a webhook cannot be decrypted: add the key that encrypted the secret to TOKEN_KEYS, or run ugs webhook rotate-secret";
        logger.warn(fieldsOf(environment, id), text);
      },
      unreadableApiToken(environment, id) {
        const fields = { environment: formatEnvironmentName(environment), api_token_id: id };
        logger.warn(
          fields,
          "webhooks receive no event about the expiry of an API token, because the record of the token is damaged",
        );
      },
      disabled(environment, id) {
        metrics.webhooksDisabled.inc();
        logger.warn(fieldsOf(environment, id), "a webhook is disabled, because its deliveries failed for three days");
      },
      missed(environment, id) {
        metrics.webhookGaps.inc();
        logger.warn(fieldsOf(environment, id), "events were removed before their delivery to a webhook");
      },
    },
  });
  lifecycle.onClose("deliveries to webhooks", () => engine.close());
  metrics.gauge({
    name: "ugs_webhook_undelivered_age_seconds",
    help: "Age of the oldest undelivered event of an environment, for the 20 environments with the highest ages",
    ofWorkers: "max",
    read() {
      const lags = engine.lags().slice(0, MAX_LAGS);
      // If METRICS_PORT is not set, unauthenticated clients can read the metrics. In this case, the metrics must not
      // name environments.
      if (metricsPort === undefined) return [{ labels: {}, value: (lags[0]?.ageMs ?? 0) / 1000 }];
      return lags.map(({ environment, ageMs }) => ({
        labels: { environment: formatEnvironmentName(environment) },
        value: ageMs / 1000,
      }));
    },
  });
  return {
    start: () => void engine.run(),
    async sendTest(environment: Environment, target: WebhookTarget): Promise<SendResult> {
      const event = { id: `test-${newResourceId()}`, type: TEST_TYPE, time: Date.now(), webhookId: target.webhook.id };
      const sender = new Sender({ allowed });
      try {
        return await sendEvent(sender, environment, target, { event });
      } finally {
        sender.close();
      }
    },
  };
}
