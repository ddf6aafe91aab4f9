import {
  type ApiToken,
  type ApiTokenStore,
  isApiTokenId,
  MAX_API_TOKENS,
  MAX_GRACED,
  newApiTokenId,
  type RevocationListener,
  USE_INTERVAL_MS,
} from "../../domain/api-token.ts";
import type { ChangeBy } from "../../domain/audit.ts";
import type { Environment } from "../../domain/environment.ts";
import { ApiTokenNotFound, RecordUnreadable } from "../../domain/errors.ts";
import { apiTokenDigest, newApiToken } from "../../domain/token.ts";
import { type Audit, changeEnvironment } from "../audit.ts";
import type { StoreClient } from "../connection/client.ts";
import { environmentOf } from "../environments.ts";
import { apiTokenKey, apiTokensKey, environmentKey, REVOKED_CHANNEL } from "../keys.ts";
import { afterChange, isEmpty, recordFromAnswer } from "../records.ts";
import {
  CREATE_API_TOKEN,
  FIND_API_TOKEN,
  NOTE_TOKEN_USE,
  READ_API_TOKENS,
  REVOKE_API_TOKENS,
  ROTATE_API_TOKEN,
  UPDATE_API_TOKEN,
} from "../scripts.ts";
import { allSecretsFrom, apiTokenFrom, isReplaced, matches, type TokenSecret, validById } from "./api-token-record.ts";

/** Number of secrets that one script reads: 1 ms. */
const READ_AT_ONCE = 125;

/** Number of API tokens that one script revokes: 1.4 ms if the environment has 1,000. */
const REVOKED_AT_ONCE = 50;

/** Maximum number of steps of a revocation, before a script revokes all API tokens that remain: 12 ms for 1,000. */
const MAX_STEPS = (2 * MAX_API_TOKENS) / REVOKED_AT_ONCE;

/** Dependencies of the store of API tokens. */
interface ApiTokenDeps {
  readonly client: StoreClient;
  /** Receives changes by this process. `followRevocations` reports changes by all processes. */
  readonly listener: Pick<RevocationListener, "revoked">;
  readonly audit: Audit;
}

/** API tokens in Redis. Each secret has a hash of its own, which contains all values of its API token. */
export function redisApiTokens({ client, listener, audit }: ApiTokenDeps): ApiTokenStore {
  const channel = REVOKED_CHANNEL;

  /** Decodes the API token in the answer of a change, and reports its secrets. @throws ApiTokenNotFound if it has expired */
  const changedToken = (answer: readonly string[]): ApiToken => {
    const secrets = [...allSecretsFrom(answer)];
    if (answer[0] === "done") for (const { digest } of secrets) listener.revoked(digest);
    const [[id, valid] = ["", []]] = validById(secrets);
    const apiToken = afterChange(() => apiTokenFrom(id, valid));
    if (!apiToken) throw new ApiTokenNotFound();
    return apiToken;
  };

  /** A new secret, and the keys for its creation. */
  const newSecret = ({ number }: Environment) => {
    const token = newApiToken(number);
    return { token, keys: { apiTokens: apiTokensKey(number), apiToken: apiTokenKey(number, apiTokenDigest(token)) } };
  };

  /** The argument `issuer`: only API tokens have such ids. */
  const issuerOf = (id: string) => (isApiTokenId(id) ? id : "");

  /** @throws ApiTokenNotFound if the id is malformed. It may be a token that was sent by mistake, so it must not be logged */
  const requireId = (id: string): void => {
    if (!isApiTokenId(id)) throw new ApiTokenNotFound();
  };

  return {
    async create(environment, { displayName, role, expireTime, creator }, by) {
      const { token, keys } = newSecret(environment);
      const args = {
        id: newApiTokenId(),
        displayName,
        tokenRole: role,
        expireTime,
        creator,
        issuer: issuerOf(creator),
      };
      const answer = await changeEnvironment({ client, audit, environment, by }, "create-api-token", CREATE_API_TOKEN, {
        ...keys,
        ...args,
        maxTokens: MAX_API_TOKENS,
        channel,
      });
      return { apiToken: changedToken(answer), token };
    },

    async list({ number }, filter, { after, size }) {
      const items: ApiToken[] = [];
      for (let from = after === "" ? "-" : `(${after}~`; ; ) {
        const args = { apiTokens: apiTokensKey(number), from, count: READ_AT_ONCE };
        const answer = await client.ask("list-api-tokens", READ_API_TOKENS, args, { outcome: "not_made" });
        const found = validById(allSecretsFrom(answer));
        for (const [id, secrets] of found) {
          const apiToken = apiTokenFrom(id, secrets);
          if (!apiToken || !matches(apiToken, filter)) continue;
          if (items.length === size) return { items, next: items.at(-1)?.id };
          items.push(apiToken);
        }
        if (answer[0] === "end") return { items, next: undefined };
        from = `(${[...found.keys()].at(-1)}~`;
      }
    },

    async update(environment, id, { displayName, expireTime }, by) {
      requireId(id);
      const answer = await changeEnvironment({ client, audit, environment, by }, "update-api-token", UPDATE_API_TOKEN, {
        apiTokens: apiTokensKey(environment.number),
        id,
        displayName,
        expireTime: expireTime === undefined ? "same" : `${expireTime ?? ""}`,
        channel,
      });
      return changedToken(answer);
    },

    async rotate(environment, id, { graceMs, rotator, notBeyond }, by) {
      requireId(id);
      const { token, keys } = newSecret(environment);
      const args = { id, rotator, issuer: issuerOf(rotator), notBeyond, graceMs, maxReplaced: MAX_GRACED, channel };
      const answer = await changeEnvironment({ client, audit, environment, by }, "rotate-api-token", ROTATE_API_TOKEN, {
        ...keys,
        ...args,
      });
      return { apiToken: changedToken(answer), token };
    },

    async revoke(environment, id, by: ChangeBy, { issued = false } = {}) {
      requireId(id);
      const args = { apiTokens: apiTokensKey(environment.number), id, issued, channel };
      let revoked = 0;
      for (let left = Number.POSITIVE_INFINITY, step = 0; left > 0; step++) {
        // If callers issue tokens faster than the steps revoke them, one long script revokes all.
        const count = step < MAX_STEPS ? REVOKED_AT_ONCE : MAX_API_TOKENS;
        const answer = await changeEnvironment(
          { client, audit, environment, by },
          "revoke-api-tokens",
          REVOKE_API_TOKENS,
          { ...args, count },
        );
        for (const digest of answer.slice(4)) listener.revoked(digest);
        revoked += Number(answer[2]);
        left = Number(answer[3]);
      }
      if (revoked === 0) throw new ApiTokenNotFound();
      return revoked;
    },

    async find({ number, digest }) {
      const keys = { environment: environmentKey(number), apiToken: apiTokenKey(number, digest) };
      const whileMoving = async () => {
        const of = (key: string) => client.run("api-token", "hgetall", [key], "not_made");
        const [environment, apiToken] = await Promise.all([of(keys.environment), of(keys.apiToken)]);
        if (environment["state"] !== "active" || isEmpty(apiToken)) return [];
        return [String(Date.now()), environment["path"] ?? "", ...Object.entries(apiToken).flat()];
      };
      // This read precedes the change of the call.
      const answer = await client.ask("api-token", FIND_API_TOKEN, keys, { outcome: "not_made", whileMoving });
      if (answer.length === 0) return undefined;
      const now = Number(answer[0]);
      const secret: TokenSecret = { digest, record: recordFromAnswer(answer) };
      const { id } = secret.record;
      if (id === undefined) throw new RecordUnreadable(new Error("the record of an API token has no id"));
      const apiToken = apiTokenFrom(id, [secret]) as ApiToken;
      const { expireTime = Number.POSITIVE_INFINITY, lastUseTime = Number.NEGATIVE_INFINITY } = apiToken;
      if (expireTime <= now) return undefined;
      return {
        apiToken,
        isReplaced: isReplaced(secret),
        environment: environmentOf(answer[1] as string, number),
        expiresInMs: expireTime - now,
        unusedForMs: now - lastUseTime,
      };
    },

    async noteUse({ number, digest }) {
      const args = { apiToken: apiTokenKey(number, digest), intervalMs: USE_INTERVAL_MS };
      await client.change("note-api-token-use", NOTE_TOKEN_USE, args);
    },
  };
}
