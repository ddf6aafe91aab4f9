import { environmentPath } from "../../domain/environment.ts";
import { callOf } from "../call-context.ts";
import { timeOf, timestamp } from "../messages.ts";
import { withTimestamps } from "./messages.ts";
import { type AdminDeps, type AdminRpcs, environmentRpc, nextPageToken, pageRequest } from "./requests.ts";

export function tokenKeyRpcs({ environments, tokenKeys, logger }: AdminDeps) {
  return {
    async listTokenKeys() {
      const { keys, readTime } = await tokenKeys.list();
      return {
        tokenKeys: keys.map(({ id, isPrimary: primary, isHeld: held, isRecorded: recorded, lastEncryptTime }) =>
          withTimestamps({ id, primary, held, recorded, lastEncryptTime }),
        ),
        readTime: timestamp(readTime),
      };
    },

    /**
     * Each call re-encrypts the tokens of one page of groups. The call for the first page also re-encrypts the signing
     * keys and the secrets of webhooks, and writes the audit event. If `validate_only` is set, no call re-encrypts
     * secrets or writes an audit event.
     */
    reencryptUserGroupTokens: environmentRpc(environments)(async (environment, request, call) => {
      const scope = ["ReencryptUserGroupTokens", environmentPath(environment)];
      const page = pageRequest(request, scope);
      const by = request.validateOnly ? undefined : call;
      const { uses, count, failed, next } = await tokenKeys.reencrypt(environment, page, by);
      return {
        tokenKeyUses: [...uses].map(([tokenKeyId, { userGroups, signingKeys, webhooks }]) => ({
          tokenKeyId,
          userGroupCount: BigInt(userGroups),
          signingKeyCount: signingKeys,
          webhookCount: webhooks,
        })),
        failedSigningKeyIds: [...failed.signingKeys],
        failedWebhookIds: [...failed.webhooks],
        reencryptedCount: BigInt(count),
        failedUserGroupIds: [...failed.userGroups],
        nextPageToken: nextPageToken(next, scope),
      };
    }),

    async retireTokenKey({ tokenKeyId, reencryptStartTime }, { values }) {
      // Validation has refused a request without a time, so the default 0 is never used.
      await tokenKeys.retire(tokenKeyId, timeOf(reencryptStartTime, Math.floor) ?? 0);
      const fields = { ...callOf(values).logFields(), keys: [tokenKeyId] };
      logger.info(fields, "a key of TOKEN_KEYS is retired");
      return {};
    },
  } satisfies Partial<AdminRpcs>;
}
