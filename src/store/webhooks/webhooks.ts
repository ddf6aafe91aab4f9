import { byService, type ChangeBy } from "../../domain/audit.ts";
import { type Environment, environmentPath } from "../../domain/environment.ts";
import { WebhookNotFound, WebhookTestLimited } from "../../domain/errors.ts";
import { isResourceId, newResourceId } from "../../domain/token.ts";
import {
  MAX_DELIVERIES,
  MAX_SECRETS,
  MAX_WEBHOOKS,
  newWebhookSecret,
  SECRET_GRACE_MS,
  TEST_INTERVAL_MS,
  type Webhook,
  type WebhookChange,
  type WebhookStore,
  type WebhookTarget,
} from "../../domain/webhook.ts";
import { changeEnvironment } from "../audit.ts";
import type { GroupDeps } from "../groups/group-record.ts";
import { deliveriesKey, environmentMember, WEBHOOK_ENVIRONMENTS_KEY, webhookKey, webhooksKey } from "../keys.ts";
import { afterChange, isEmpty, type ReadRecord, readRecord, recordFromAnswer } from "../records.ts";
import { ADD_MEMBER, BEGIN_WEBHOOK_CHECK, CHANGE_WEBHOOK, CREATE_WEBHOOK, DELETE_WEBHOOK } from "../scripts.ts";
import { deliveryFrom, secretNameOf, targetFrom } from "./webhook-record.ts";

/** The author of a test message to a webhook. A test message causes no audit event, so this author is never stored. */
const TESTER = byService("the test of a webhook", "TestWebhook");

/** Creates the store of webhooks. Keys of `TOKEN_KEYS` encrypt the secrets of the webhooks. */
export function redisWebhooks({ client, cipher, audit }: GroupDeps): WebhookStore {
  const requireId = (id: string): string => {
    if (!isResourceId(id)) throw new WebhookNotFound();
    return id;
  };

  const find = async (environment: Environment, id: string): Promise<WebhookTarget> => {
    const found = await readRecord(client, "webhook", webhookKey(environment.number, requireId(id)));
    if (isEmpty(found.record)) throw new WebhookNotFound();
    return targetFrom({ cipher, environment }, id, found);
  };

  const changed = (environment: Environment, id: string, answer: readonly string[]): Webhook =>
    afterChange(() => targetFrom({ cipher, environment }, id, recordFromAnswer(answer)).webhook);

  const change = async (
    environment: Environment,
    id: string,
    by: ChangeBy,
    { secret, since, extraArgs }: { secret?: string; since?: number; extraArgs?: readonly string[] },
  ): Promise<Webhook> => {
    const answer = await changeEnvironment({ client, audit, environment, by }, "change-webhook", CHANGE_WEBHOOK, {
      id: requireId(id),
      secret,
      graceMs: SECRET_GRACE_MS,
      maxSecrets: MAX_SECRETS,
      since,
      extraArgs,
    });
    return changed(environment, id, answer);
  };

  return {
    async create(environment, values, by) {
      const { number } = environment;
      const [id, secret] = [newResourceId(), newWebhookSecret()];
      // First add the environment to the list of environments with webhooks, so that workers find the first webhook of
      // the environment.
      const member = environmentMember(environmentPath(environment), number);
      await client.change("list-webhooks", ADD_MEMBER, { key: WEBHOOK_ENVIRONMENTS_KEY, member });
      const sealed = cipher.seal(environment, secretNameOf(id), secret);
      const answer = await changeEnvironment({ client, audit, environment, by }, "create-webhook", CREATE_WEBHOOK, {
        id,
        maxWebhooks: MAX_WEBHOOKS,
        extraArgs: [...fieldsOf(values), "secrets", sealed],
      });
      return { webhook: changed(environment, id, answer), secret };
    },

    get: async (environment, id) => (await find(environment, id)).webhook,

    async list(environment) {
      const found = await readWebhooks({ client }, environment);
      return found.map(([id, read]) => targetFrom({ cipher, environment }, id, read).webhook);
    },

    update: (environment, id, values, by) => change(environment, id, by, { extraArgs: fieldsOf(values) }),

    async delete(environment, id, by) {
      const change = { client, audit, environment, by };
      await changeEnvironment(change, "delete-webhook", DELETE_WEBHOOK, { id: requireId(id) });
    },

    async rotateSecret(environment, id, by) {
      const secret = newWebhookSecret();
      const sealed = cipher.seal(environment, secretNameOf(id), secret);
      return { webhook: await change(environment, id, by, { secret: sealed }), secret };
    },

    async deliveries(environment, id) {
      await find(environment, id);
      const range = [`(${Number.MAX_SAFE_INTEGER}-0`, "0", "COUNT", MAX_DELIVERIES] as const;
      const entries = await client.run("list-deliveries", "xrevrange", [
        deliveriesKey(environment.number, id),
        ...range,
      ]);
      return entries.map(deliveryFrom);
    },

    rewind: (environment, id, time, by) => change(environment, id, by, { since: Math.floor(time) * 1000 }),

    async beginTest(environment, id) {
      const target = await find(environment, id);
      const begin = { field: "test_time", intervalMs: TEST_INTERVAL_MS, refresh: false };
      const [state, , left] = await changeEnvironment(
        { client, audit, environment, by: TESTER },
        "test-webhook",
        BEGIN_WEBHOOK_CHECK,
        begin,
      );
      if (state === "recent") throw new WebhookTestLimited(Math.ceil(Number(left) / 1000));
      return target;
    },
  };
}

/** Returns the names and values of the given fields, for a script. */
function fieldsOf({ displayName, url, eventTypes, state }: WebhookChange): string[] {
  const fields = { display_name: displayName, url, event_types: eventTypes?.join(","), state };
  return Object.entries(fields).flatMap(([name, value]) => (value === undefined ? [] : [name, value]));
}

/** Reads the records of the webhooks of an environment, in the order of their ids. */
export async function readWebhooks(
  { client }: Pick<GroupDeps, "client">,
  { number }: Environment,
): Promise<(readonly [id: string, read: ReadRecord])[]> {
  const range = [webhooksKey(number), "-", "+", "LIMIT", 0, MAX_WEBHOOKS] as const;
  const ids = await client.run("list-webhooks", "zrangebylex", range);
  const reads = ids.map((id) => readRecord(client, "list-webhooks", webhookKey(number, id)));
  const records = (await Promise.all(reads)).map((read, i) => [ids[i] as string, read] as const);
  // If a record is empty, the webhook was deleted after its id was read.
  return records.filter(([, { record }]) => !isEmpty(record));
}
