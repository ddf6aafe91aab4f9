import type { Environment } from "../../domain/environment.ts";
import { RecordUnreadable } from "../../domain/errors.ts";
import { sealingKeyId } from "../encryption.ts";
import type { GroupDeps } from "../groups/group-record.ts";
import { webhookKey } from "../keys.ts";
import { type ReadRecord, textOf } from "../records.ts";
import { REPLACE_FIELDS } from "../scripts.ts";
import { formatSecrets, secretNameOf, validSecrets } from "../webhooks/webhook-record.ts";
import { readWebhooks } from "../webhooks/webhooks.ts";

/**
 * Uses the first key of the ring to encrypt the webhook secrets of an environment. If another call changes the secrets
 * of a webhook at the same time, this call does not write the secrets of this webhook. In this case, a later call must
 * encrypt these secrets.
 *
 * @returns `uses`: for each webhook, the ids of the keys that encrypted its secrets before this call. An id occurs at
 *   most once per webhook. `failed`: the ids of webhooks with a secret that cannot be decrypted
 */
export async function reencryptWebhooks({ client, cipher }: GroupDeps, environment: Environment, isDryRun: boolean) {
  const [uses, failed]: [string[], string[]] = [[], []];
  const reencrypt = async (id: string, { record, now }: ReadRecord): Promise<void> => {
    const secrets = validSecrets(record, now, `the webhook ${id}`);
    const keyIds = new Set(secrets.map(({ sealed }) => sealingKeyId(sealed)));
    uses.push(...keyIds);
    keyIds.delete(cipher.currentKeyId);
    if (isDryRun || keyIds.size === 0) return;
    const name = secretNameOf(id);
    const next = secrets.flatMap(({ sealed, expireTime }) => {
      const secret = cipher.unseal(environment, name, sealed);
      return secret === undefined ? [] : { sealed: cipher.seal(environment, name, secret), expireTime };
    });
    if (next.length < secrets.length) return void failed.push(id);
    await client.change("reencrypt", REPLACE_FIELDS, {
      key: webhookKey(environment.number, id),
      field: "secrets",
      expected: textOf(record, "secrets"),
      extraArgs: ["secrets", formatSecrets(next)],
    });
  };
  for (const [id, found] of await readWebhooks({ client }, environment)) {
    await reencrypt(id, found).catch((error: unknown) => {
      if (!(error instanceof RecordUnreadable)) throw error;
      failed.push(id);
    });
  }
  return { uses, failed };
}
