import { randomBytes } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import { pages } from "@user-group-service/client";
import type { EnvironmentName } from "../../../../gen/usergroup/admin/v1/environment_pb.ts";
import { type TokenKey, type TokenKeyUse, TokenKeyUseSchema } from "../../../../gen/usergroup/admin/v1/token_key_pb.ts";
import { formatEnvironmentName } from "../../../operator/src/environment-name.ts";
import { MAX_PAGE_SIZE } from "../../../operator/src/pages.ts";
import { timeText } from "../../../operator/src/times.ts";
import { countText } from "../../../operator/src/words.ts";
import { CONTINUE, EXIT, Failure, reasonOf, usageFailure } from "../failures.ts";
import { jsonLine } from "../output/printable.ts";
import type { Column } from "../output/table.ts";
import type { Session } from "../session.ts";
import { patiently } from "../transfer/patience.ts";
import { continuable, openTask, type Task } from "../transfer/target.ts";
import { type DefineCommand, runs } from "./command.ts";
import { environmentNames } from "./token-lookup.ts";

const MAX_FAILED = 10;

export const keysCommands: DefineCommand = (keys, shell) => {
  keys.description("keys of TOKEN_KEYS: generate, check, rotate");
  const generate = keys
    .command("generate")
    .description("generate a key for TOKEN_KEYS; does not call the service")
    .option("--id <id>", "the id of the key: 1 to 32 letters, digits, '_' or '-'; default: date and random digits");
  runs(generate, shell, async (session, { id = newId() }: { readonly id?: string }) => {
    if (!/^[A-Za-z0-9_-]{1,32}$/.test(id)) throw usageFailure("--id must be 1 to 32 letters, digits, '_' or '-'");
    await session.out.line(`${id}:${randomBytes(32).toString("base64")}`);
  });

  const check = keys
    .command("check")
    .description("count the user groups, signing keys and webhooks that need each key; needs ADMIN_TOKEN");
  runs(check, shell, async (session) => {
    const task = await openTask(session, "read");
    const { tokenKeys } = await task.admin.listTokenKeys({});
    const { uses } = await reencryptAll(session, task, true);
    for (const { id: tokenKeyId } of tokenKeys)
      if (!uses.has(tokenKeyId)) uses.set(tokenKeyId, create(TokenKeyUseSchema, { tokenKeyId }));
    const rows = [...uses.values()];
    await session.out.list(TokenKeyUseSchema, columnsOf(tokenKeys), [rows]);
    const lacking = rows.filter(
      ({ tokenKeyId, userGroupCount, signingKeyCount, webhookCount }) =>
        (userGroupCount > 0n || signingKeyCount > 0 || webhookCount > 0) &&
        !tokenKeys.some((key) => key.id === tokenKeyId && key.held),
    );
    if (lacking.length === 0) return;
    const ids = lacking.map(({ tokenKeyId }) => tokenKeyId).join(", ");
    throw new Failure(`TOKEN_KEYS lacks keys that user groups, signing keys or webhooks need: ${ids}`, {
      exitCode: EXIT.conflict,
      hint: "add these keys to TOKEN_KEYS of every worker, after the other keys; without these keys, the service cannot decrypt the secrets",
    });
  });

  const rotate = keys
    .command("rotate")
    .description("encrypt every token with the first key of TOKEN_KEYS, and retire the other keys; needs ADMIN_TOKEN");
  runs(rotate, shell, async (session) => {
    const task = await openTask(session, "read");
    const { tokenKeys, readTime } = await task.admin.listTokenKeys({});
    const current = tokenKeys.find(({ primary }) => primary)?.id ?? "";
    session.out.note(`The first key of TOKEN_KEYS is ${current}.`);
    const { groupCount, reencrypted, failed } = await reencryptAll(session, task, false);
    const retired: string[] = [];
    const say = async (text: string) => session.out.isJson || (await session.out.line(text));
    await say(
      `Read ${countText(groupCount, "user group")}, and encrypted ${countText(reencrypted, "token")} with the key ${current}.`,
    );
    if (failed.length > 0) {
      const more = failed.length > MAX_FAILED ? ` and ${failed.length - MAX_FAILED} more` : "";
      throw new Failure(
        `the secrets of these groups, signing keys or webhooks cannot be decrypted: ${failed.slice(0, MAX_FAILED).join(", ")}${more}`,
        {
          exitCode: EXIT.conflict,
          hint: "ugs keys check shows missing keys; if no key is missing, replace the secrets with ugs group revoke, ugs signing-key rotate --end-sessions or ugs webhook rotate-secret; then run this command again (after ugs webhook rotate-secret, wait 24 hours)",
        },
      );
    }
    let refusal: unknown;
    for (const { id } of tokenKeys.filter(({ primary, recorded }) => recorded && !primary)) {
      try {
        await task.admin.retireTokenKey({ tokenKeyId: id, reencryptStartTime: readTime });
        retired.push(id);
        await say(
          `No token needs the key ${id}: remove this key from TOKEN_KEYS of every worker. Older backups of Redis still need this key.`,
        );
      } catch (error) {
        if (reasonOf(error) !== "TOKEN_KEY_IN_USE") throw error;
        refusal = error;
        session.out.note(`The key ${id} cannot be retired yet.`);
      }
    }
    if (session.out.isJson) {
      const counts = { userGroupCount: String(groupCount), reencryptedCount: String(reencrypted) };
      await session.out.line(jsonLine({ ...counts, retiredTokenKeyIds: retired }));
    }
    if (refusal) throw refusal;
  });
};

/**
 * Encrypts the secrets of all environments again. If `validateOnly` is set, changes nothing, and only counts.
 *
 * @returns `uses` contains one entry per key: the numbers of groups, signing keys and webhooks whose secrets were
 *   encrypted with this key before the call. `failed` lists the groups, signing keys and webhooks whose secrets cannot
 *   be decrypted, each with its environment and id
 */
async function reencryptAll(session: Session, task: Task, validateOnly: boolean) {
  const { adminOnce, patience, progress } = task;
  const uses = new Map<string, TokenKeyUse>();
  const failed: string[] = [];
  let [groupCount, reencrypted] = [0n, 0n];
  const list: typeof adminOnce.reencryptUserGroupTokens = (request) =>
    patiently(patience, () => adminOnce.reencryptUserGroupTokens(request));
  const reencrypt = async (environment: EnvironmentName) => {
    const name = formatEnvironmentName(environment);
    for await (const page of pages(list, { environment, validateOnly, pageSize: MAX_PAGE_SIZE })) {
      for (const use of page.tokenKeyUses) {
        const sum = uses.get(use.tokenKeyId) ?? create(TokenKeyUseSchema, { tokenKeyId: use.tokenKeyId });
        sum.userGroupCount += use.userGroupCount;
        sum.signingKeyCount += use.signingKeyCount;
        sum.webhookCount += use.webhookCount;
        uses.set(use.tokenKeyId, sum);
        groupCount += use.userGroupCount;
      }
      reencrypted += page.reencryptedCount;
      failed.push(
        ...page.failedUserGroupIds.map((id) => `${name} ${id}`),
        ...page.failedSigningKeyIds.map((id) => `${name} (the signing key ${id})`),
        ...page.failedWebhookIds.map((id) => `${name} (the webhook ${id})`),
      );
      progress.show({ groups: Number(groupCount), fraction: undefined });
    }
  };
  const environments = await environmentNames(task.admin);
  await continuable(session, task, CONTINUE, async () => {
    for (const environment of environments)
      await reencrypt(environment).catch((error: unknown) => {
        // Ignore an environment that was deleted after `environmentNames` listed it.
        if (reasonOf(error) !== "ENVIRONMENT_NOT_FOUND") throw error;
      });
  });
  return { uses, failed, groupCount, reencrypted };
}

function newId(): string {
  return `k${new Date().toISOString().slice(0, 10).replaceAll("-", "")}-${randomBytes(2).toString("hex")}`;
}

function columnsOf(keys: readonly TokenKey[]): readonly Column<TokenKeyUse>[] {
  const keyOf = ({ tokenKeyId }: TokenKeyUse) => keys.find(({ id }) => id === tokenKeyId);
  return [
    { name: "KEY", of: ({ tokenKeyId }) => tokenKeyId, isFree: true },
    { name: "GROUPS", of: ({ userGroupCount }) => String(userGroupCount) },
    { name: "SIGNING KEYS", of: ({ signingKeyCount }) => String(signingKeyCount) },
    { name: "WEBHOOKS", of: ({ webhookCount }) => String(webhookCount) },
    {
      name: "STATE",
      of: (use) => {
        const key = keyOf(use);
        return key?.primary ? "first: encrypts" : key?.held ? "decrypts" : "missing in TOKEN_KEYS";
      },
    },
    { name: "LAST ENCRYPTED", of: (use) => timeText(keyOf(use)?.lastEncryptTime) ?? "" },
  ];
}
