import {
  type ApiToken,
  type ApiTokenStore,
  MAX_API_TOKENS,
  MAX_GRACED,
  type RevocationListener,
  USE_INTERVAL_MS,
} from "../../domain/api-token.ts";
import type { ChangeBy } from "../../domain/audit.ts";
import { ApiTokenNotFound, RecordUnreadable } from "../../domain/errors.ts";
import { apiTokenDigest, isResourceId, newApiToken, newResourceId } from "../../domain/token.ts";
import { type Audit, changeEnvironment } from "../audit.ts";
import type { StoreClient } from "../connection/client.ts";
import { environmentOf } from "../environments.ts";
import { apiTokenKey, apiTokensKey, environmentKey } from "../keys.ts";
import { afterChange, inBatches, isEmpty, readRecord, recordFromAnswer } from "../records.ts";
import {
  CREATE_API_TOKEN,
  FIND_API_TOKEN,
  NOTE_TOKEN_USE,
  REVOKE_API_TOKENS,
  ROTATE_API_TOKEN,
  UPDATE_API_TOKEN,
} from "../scripts.ts";
import { apiTokenFrom, matches, secretsFrom } from "./api-token-record.ts";

const READ_AT_ONCE = 50;

const REVOKED_AT_ONCE = 50;

/**
 * The duration of a pause, in milliseconds. During a pause, API tokens of the environment cannot create or rotate API
 * tokens. Each step of a revocation with `issued` starts a new pause. The end of the revocation does not end the pause,
 * because another revocation may be in progress.
 */
const PAUSE_MS = 5000;

interface ApiTokenDeps {
  readonly client: StoreClient;
  /**
   * Receives the digests of API tokens that this process changes. `followRevocations` reports the changes by all
   * processes.
   */
  readonly listener: Pick<RevocationListener, "revoked">;
  readonly audit: Audit;
}

export function redisApiTokens({ client, listener, audit }: ApiTokenDeps): ApiTokenStore {
  /** Decodes the API token in an answer, and reports its digests to the listener. @throws ApiTokenNotFound */
  const changedToken = (id: string, answer: readonly string[]): ApiToken => {
    const [state, , digests = ""] = answer;
    if (state === "done") for (const digest of digests.split(" ")) listener.revoked(digest);
    const changed = recordFromAnswer(answer, 3);
    if (isEmpty(changed.record)) throw new ApiTokenNotFound();
    return afterChange(() => apiTokenFrom(id, changed));
  };

  const listIds = async (number: number): Promise<string[]> => {
    const entries = await client.run("list-api-tokens", "hgetall", [apiTokensKey(number)]);
    return [...new Set(Object.values(entries))];
  };

  /** Lists the ids of the API tokens that an API token created or rotated, directly or through other API tokens. */
  const issuedBy = async (issuer: string, number: number): Promise<string[]> => {
    const issued: string[] = [];
    const read = async (id: string) => {
      const [issuers] = await client.run("list-api-tokens", "hmget", [apiTokenKey(number, id), "issuers"]);
      if (issuers?.split(" ").includes(issuer)) issued.push(id);
    };
    for await (const _ of inBatches(await listIds(number), READ_AT_ONCE, read));
    return issued;
  };

  /** Rejects a malformed id. The error does not contain the id, because the caller may have passed a secret. */
  const requireId = (id: string): void => {
    if (!isResourceId(id)) throw new ApiTokenNotFound();
  };

  return {
    async create(environment, { displayName, role, expireTime }, by) {
      const [id, token] = [newResourceId(), newApiToken(environment.number)];
      const answer = await changeEnvironment({ client, audit, environment, by }, "create-api-token", CREATE_API_TOKEN, {
        id,
        digest: apiTokenDigest(token),
        displayName,
        tokenRole: role,
        expireTime,
        maxTokens: MAX_API_TOKENS,
      });
      return { apiToken: changedToken(id, answer), token };
    },

    async list({ number }, filter, { after, size }, onUnreadable) {
      const ids = (await listIds(number)).filter((id) => id > after).sort();
      const read = async (id: string) => {
        const found = await readRecord(client, "list-api-tokens", apiTokenKey(number, id));
        // If the record is empty, the API token has expired or was revoked after its id was read.
        return isEmpty(found.record) ? [] : [apiTokenFrom(id, found)];
      };
      const readOrSkip = (id: string) =>
        read(id).catch((error: unknown): ApiToken[] => {
          if (!onUnreadable || !(error instanceof RecordUnreadable)) throw error;
          onUnreadable(id);
          return [];
        });
      const items: ApiToken[] = [];
      for await (const batch of inBatches(ids, READ_AT_ONCE, readOrSkip)) {
        for (const apiToken of batch.flat()) {
          if (!matches(apiToken, filter)) continue;
          if (items.length === size) return { items, next: items.at(-1)?.id };
          items.push(apiToken);
        }
      }
      return { items, next: undefined };
    },

    async update(environment, id, { displayName, expireTime }, by) {
      requireId(id);
      const answer = await changeEnvironment({ client, audit, environment, by }, "update-api-token", UPDATE_API_TOKEN, {
        id,
        displayName,
        expireTime: expireTime === undefined ? "same" : `${expireTime ?? ""}`,
      });
      return changedToken(id, answer);
    },

    async rotate(environment, id, { graceMs, notBeyond }, by) {
      requireId(id);
      const token = newApiToken(environment.number);
      const answer = await changeEnvironment({ client, audit, environment, by }, "rotate-api-token", ROTATE_API_TOKEN, {
        id,
        digest: apiTokenDigest(token),
        notBeyond,
        graceMs,
        maxPrevious: MAX_GRACED,
      });
      return { apiToken: changedToken(id, answer), token };
    },

    async revoke(environment, id, by: ChangeBy, { issued = false } = {}) {
      requireId(id);
      const { number } = environment;
      const change = { client, audit, environment, by };
      let revoked = 0;
      const revokeSome = async (ids: readonly string[], pauseMs: number | undefined) => {
        const args = { pauseMs, extraArgs: ids };
        const answer = await changeEnvironment(change, "revoke-api-tokens", REVOKE_API_TOKENS, args);
        for (const digest of answer.slice(3)) listener.revoked(digest);
        revoked += Number(answer[2]);
      };
      await revokeSome([id], issued ? PAUSE_MS : undefined);
      // If a pause ends before the next step, API tokens that are not yet revoked can create or rotate more API tokens.
      // The next call of `issuedBy` finds these new API tokens as well.
      for (let ids = [""]; issued && ids.length > 0; ) {
        ids = await issuedBy(id, number);
        for (let start = 0; start < ids.length; start += REVOKED_AT_ONCE)
          await revokeSome(ids.slice(start, start + REVOKED_AT_ONCE), PAUSE_MS);
      }
      if (revoked === 0) throw new ApiTokenNotFound();
      return revoked;
    },

    async find({ number, digest }) {
      const keys = { environment: environmentKey(number), apiTokens: apiTokensKey(number) };
      const whileMoving = async () => {
        const [[state, path], [id]] = await Promise.all([
          client.run("api-token", "hmget", [keys.environment, "state", "path"], "not_made"),
          client.run("api-token", "hmget", [keys.apiTokens, digest], "not_made"),
        ]);
        if (state !== "active" || !id) return [];
        const record = await client.run("api-token", "hgetall", [apiTokenKey(number, id)], "not_made");
        return ["found", String(Date.now()), path ?? "", id, ...Object.entries(record).flat()];
      };
      // A call runs `find` before its change, so an error of `find` has the outcome `not_made`.
      const args = { ...keys, digest };
      const answer = await client.ask("api-token", FIND_API_TOKEN, args, { outcome: "not_made", whileMoving });
      const [, , path = "", id = ""] = answer;
      const { record, now } = recordFromAnswer(answer, 4);
      if (isEmpty(record)) return undefined;
      const apiToken = apiTokenFrom(id, { record, now });
      const secrets = secretsFrom(id, record);
      const secret = secrets.find((each) => each.digest === digest);
      const expiresInMs = (secret?.expireTime ?? Number.POSITIVE_INFINITY) - now;
      if (!secret || expiresInMs <= 0) return undefined;
      return {
        apiToken: { ...apiToken, expireTime: secret.expireTime },
        isReplaced: secret !== secrets[0],
        environment: environmentOf(path, number),
        expiresInMs,
        unusedForMs: now - (apiToken.lastUseTime ?? Number.NEGATIVE_INFINITY),
      };
    },

    async noteUse({ number }, id) {
      const args = { apiToken: apiTokenKey(number, id), intervalMs: USE_INTERVAL_MS };
      await client.change("note-api-token-use", NOTE_TOKEN_USE, args);
    },
  };
}
