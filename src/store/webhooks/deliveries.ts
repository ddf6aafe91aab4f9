import { byService, type ChangeBy } from "../../domain/audit.ts";
import { environmentPath } from "../../domain/environment.ts";
import {
  CHECK_INTERVAL_MS,
  type Claim,
  type DeliveryStore,
  DISABLE_AFTER_MS,
  type DueWebhook,
  LEASE_MS,
  MAX_DELIVERIES,
} from "../../domain/webhook.ts";
import { changeEnvironment, sendChange } from "../audit.ts";
import { environmentOf } from "../environments.ts";
import type { GroupDeps } from "../groups/group-record.ts";
import {
  environmentKey,
  environmentMember,
  fromMember,
  WEBHOOK_ENVIRONMENTS_KEY,
  webhooksKey,
  webhookTimesKey,
} from "../keys.ts";
import { recordFromAnswer } from "../records.ts";
import {
  BEGIN_WEBHOOK_CHECK,
  CLAIM_WEBHOOK,
  DUE_WEBHOOKS,
  NOTE_EXPIRY,
  REMOVE_MEMBER,
  SETTLE_WEBHOOK,
} from "../scripts.ts";
import { entryOf, targetFrom } from "./webhook-record.ts";

const DELIVERER = byService("the delivery of events", "DisableWebhook");

const CHECKER = byService("the check of expiry times", "NoteApiTokenExpiry");

/** The number of values per webhook in the answer of `DUE_WEBHOOKS`. */
const DUE_VALUES = 4;

export function redisDeliveries({ client, cipher, audit }: GroupDeps): DeliveryStore {
  const send = (environment: Claim["environment"], by: ChangeBy) => ({ client, audit, environment, by });

  const targetOf = ({ environment, id }: Pick<Claim, "environment" | "id">, answer: readonly string[]) =>
    answer[0] === "done" ? targetFrom({ cipher, environment }, id, recordFromAnswer(answer)) : undefined;

  return {
    async environments({ after, size }) {
      const range = [WEBHOOK_ENVIRONMENTS_KEY, after === "" ? "-" : `(${after}`, "+", "LIMIT", 0, size] as const;
      const members = await client.run("list-webhooks", "zrangebylex", range);
      const items = members.map((member) => {
        const { path, number } = fromMember(member);
        return environmentOf(path, number);
      });
      return { items, next: members.length === size ? members.at(-1) : undefined };
    },

    async due({ number }) {
      const keys = {
        environment: environmentKey(number),
        webhooks: webhooksKey(number),
        times: webhookTimesKey(number),
      };
      const [state, now, checkTime, ...values] = await client.ask("due-webhooks", DUE_WEBHOOKS, keys);
      if (state !== "active") return undefined;
      const webhooks: DueWebhook[] = [];
      for (let i = 0; i < values.length; i += DUE_VALUES) {
        const [id = "", cursor, isFree, failed] = values.slice(i, i + DUE_VALUES);
        const failedEventTime = failed === "" ? undefined : Number(failed);
        webhooks.push({ id, cursor: Number(cursor), isFree: isFree === "1", failedEventTime });
      }
      return { now: Number(now), checkTime: checkTime === "" ? undefined : Number(checkTime), webhooks };
    },

    async forget(environment) {
      // The state `deleted` is final, because the number of a deleted environment is never used again.
      const [state] = await client.run("due-webhooks", "hmget", [environmentKey(environment.number), "state"]);
      if (state !== "deleted") return;
      const member = environmentMember(environmentPath(environment), environment.number);
      await client.change("list-webhooks", REMOVE_MEMBER, { key: WEBHOOK_ENVIRONMENTS_KEY, member });
    },

    async claim({ environment, id, holder }) {
      const args = { id, holder, leaseMs: LEASE_MS };
      const answer = await sendChange(send(environment, DELIVERER), "claim-webhook", CLAIM_WEBHOOK, args);
      return targetOf({ environment, id }, answer);
    },

    async settle({ environment, id, holder }, { from, to, attempt, release }) {
      const answer = await sendChange(send(environment, DELIVERER), "settle-webhook", SETTLE_WEBHOOK, {
        id,
        holder,
        outcome: attempt?.outcome,
        entry: attempt && entryOf(attempt),
        eventTime: attempt?.eventTime,
        from: from.cursor,
        to: to.cursor,
        toTime: to.cursorTime,
        release,
        retryMs: attempt?.retryMs,
        leaseMs: LEASE_MS,
        disableAfterMs: DISABLE_AFTER_MS,
        maxDeliveries: MAX_DELIVERIES,
      });
      return targetOf({ environment, id }, answer);
    },

    async beginCheck(environment) {
      const args = { field: "check_time", intervalMs: CHECK_INTERVAL_MS, refresh: true };
      const answer = await sendChange(send(environment, CHECKER), "check-webhooks", BEGIN_WEBHOOK_CHECK, args);
      return answer[0] === "done";
    },

    async noteExpiry(environment, { id, expireTime }, days) {
      const args = { id, expireTime, days };
      const [outcome] = await changeEnvironment(send(environment, CHECKER), "note-expiry", NOTE_EXPIRY, args);
      return outcome === "done";
    },
  };
}
