import {
  type ApiToken,
  apiTokenDigest,
  isApiTokenId,
  isRole,
  type NewApiToken,
  newApiTokenId,
  type ValidApiToken,
} from "../domain/api-token.ts";
import type { ChangeBy } from "../domain/audit.ts";
import { type EnvironmentName, environmentPath, parseEnvironmentPath } from "../domain/environment.ts";
import { ApiTokenNotFound, EnvironmentNotFound, RecordUnreadable } from "../domain/errors.ts";
import {
  type ApiTokenStore,
  type Page,
  type PageRequest,
  type RevocationListener,
  USE_INTERVAL_MS,
} from "../domain/store.ts";
import { newApiToken } from "../domain/token.ts";
import type { Audit } from "./audit.ts";
import type { StoreClient } from "./client.ts";
import { environmentFromRecord } from "./environments.ts";
import { API_TOKEN_FIELD, ENVIRONMENT_FIELD } from "./fields.ts";
import { apiTokenHintKey, apiTokenIdsKey, apiTokenKey, environmentKey, REVOKED_CHANNEL } from "./keys.ts";
import { pageOfKeys, recordsOf } from "./pages.ts";
import { integerOf, isEmpty, optionalIntegerOf, recordFromAnswer, type StoredRecord, textOf } from "./stored-record.ts";

/** The field of a hint: `ENV/TAG/ID`. */
const HINT = "at";

/** What the store is made of. */
export interface RedisApiTokensParts {
  readonly client: StoreClient;
  /** Told of revocations by this process; `RevocationFeed` tells it of those by others. */
  readonly listener: RevocationListener;
  readonly audit: Audit;
}

/** API tokens in Redis. Which keys hold what: `keys.ts`. */
export class RedisApiTokens implements ApiTokenStore {
  readonly #client: StoreClient;
  readonly #listener: RevocationListener;
  readonly #audit: Audit;

  constructor({ client, listener, audit }: RedisApiTokensParts) {
    this.#client = client;
    this.#listener = listener;
    this.#audit = audit;
  }

  async create(environment: EnvironmentName, values: NewApiToken, by: ChangeBy) {
    const id = newApiTokenId();
    const token = newApiToken();
    const digest = apiTokenDigest(token);
    await this.#hint(digest, `${environmentPath(environment)}/${id}`);
    const { displayName, role, expireTime, creator } = values;
    const fields = [
      ...[API_TOKEN_FIELD.digest, digest, API_TOKEN_FIELD.displayName, displayName],
      ...[API_TOKEN_FIELD.role, role, API_TOKEN_FIELD.creator, creator],
      ...(expireTime === undefined ? [] : [API_TOKEN_FIELD.expireTime, String(expireTime)]),
    ];
    const [outcome, now] = await this.#client.change("create-api-token", "ugCreateApiToken", [
      environmentKey(environment),
      ...[apiTokenKey(environment, id), apiTokenIdsKey(environment), id],
      ...fields,
      ...this.#audit.ofEnvironment(environment, by),
    ]);
    if (outcome === "missing") {
      await this.#forgetHint(digest);
      throw new EnvironmentNotFound();
    }
    if (outcome !== "created") throw new RecordUnreadable(new Error(`create-api-token: ${outcome}`));
    return { apiToken: { ...values, id, createTime: Number(now), lastUseTime: undefined }, token };
  }

  async list(environment: EnvironmentName, page: PageRequest): Promise<Page<ApiToken>> {
    const { keys: ids, next } = await pageOfKeys(this.#client, apiTokenIdsKey(environment), page);
    const items: ApiToken[] = [];
    const keyOf = (id: string) => apiTokenKey(environment, id);
    for await (const [id, record] of recordsOf(this.#client, ids, { operation: "list-api-tokens", keyOf })) {
      // A token that was revoked since the ids were read is left out.
      if (!isEmpty(record)) items.push(apiTokenFromRecord(id, record));
    }
    return { items, next };
  }

  async revoke(environment: EnvironmentName, id: string, by: ChangeBy): Promise<void> {
    // A text that is no id may be a token, sent by mistake, which must not become part of a key.
    if (!isApiTokenId(id)) throw new ApiTokenNotFound();
    const change = this.#client.change("revoke-api-token", "ugRevokeApiToken", [
      apiTokenKey(environment, id),
      ...[apiTokenIdsKey(environment), id, REVOKED_CHANNEL],
      ...this.#audit.ofEnvironment(environment, by),
    ]);
    const [outcome, , digest = ""] = await change.catch((error: unknown) => {
      // The token may be revoked all the same, and its digest is not known here.
      this.#listener.missed();
      throw error;
    });
    if (outcome === "missing") throw new ApiTokenNotFound();
    this.#listener.revoked(digest);
    await this.#forgetHint(digest);
  }

  async find(digest: string): Promise<ValidApiToken | undefined> {
    // A failure here fails the call before it changes anything.
    const hint = await this.#client.run("api-token-hint", "hgetall", [apiTokenHintKey(digest)], "not_made");
    const at = hint[HINT];
    if (at === undefined) return undefined;
    const slash = at.lastIndexOf("/");
    const environment = parseEnvironmentPath(at.slice(0, Math.max(slash, 0)));
    if (environment === undefined) throw new RecordUnreadable(new Error("an API token's hint names no environment"));
    const id = at.slice(slash + 1);
    const keys = [apiTokenKey(environment, id), environmentKey(environment)] as const;
    const answer = await this.#client.run("api-token", "ugReadApiToken", keys, "not_made");
    if (answer.length === 0) return undefined;
    const [, now, partitions, number] = answer;
    const record = recordFromAnswer(answer, 4);
    if (record[API_TOKEN_FIELD.digest] !== digest) return undefined;
    const apiToken = apiTokenFromRecord(id, record);
    const { expireTime = Number.POSITIVE_INFINITY, lastUseTime = Number.NEGATIVE_INFINITY } = apiToken;
    const expiresInMs = expireTime - Number(now);
    if (expiresInMs <= 0) return undefined;
    return {
      apiToken,
      environment: environmentFromRecord(environment, {
        [ENVIRONMENT_FIELD.partitions]: partitions,
        [ENVIRONMENT_FIELD.number]: number,
      }),
      expiresInMs,
      unusedForMs: Number(now) - lastUseTime,
    };
  }

  async noteUse(environment: EnvironmentName, id: string): Promise<void> {
    const key = apiTokenKey(environment, id);
    await this.#client.change("note-api-token-use", "ugNoteApiTokenUse", [key, String(USE_INTERVAL_MS)]);
  }

  /** Writes where a token will be, before it is created: without this hint nobody could find it. */
  async #hint(digest: string, at: string): Promise<void> {
    await this.#client.prepare("api-token-hint", "ugAdopt", [apiTokenHintKey(digest), HINT, at]);
  }

  /** Removes a hint that leads nowhere. A hint that stays, because this fails, does no harm. */
  async #forgetHint(digest: string): Promise<void> {
    await this.#client.run("api-token-hint", "del", [apiTokenHintKey(digest)]).catch(() => {});
  }
}

/** @throws RecordUnreadable, whose cause names the token by its id, so that an operator can revoke it */
function apiTokenFromRecord(id: string, record: StoredRecord): ApiToken {
  const what = `the API token ${id}`;
  const role = record[API_TOKEN_FIELD.role];
  if (!isRole(role)) throw new RecordUnreadable(new Error(`${what} has no known role`));
  return {
    id,
    displayName: textOf(record, API_TOKEN_FIELD.displayName, what),
    role,
    createTime: integerOf(record, API_TOKEN_FIELD.createTime, what),
    expireTime: optionalIntegerOf(record, API_TOKEN_FIELD.expireTime, what),
    creator: textOf(record, API_TOKEN_FIELD.creator, what),
    lastUseTime: optionalIntegerOf(record, API_TOKEN_FIELD.lastUseTime, what),
  };
}
