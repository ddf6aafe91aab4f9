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
import {
  ApiTokenChanged,
  ApiTokenNotFound,
  ApiTokenOutlivesCaller,
  RecordUnreadable,
  TooManyApiTokens,
} from "../../domain/errors.ts";
import { apiTokenDigest, newApiToken } from "../../domain/token.ts";
import { type Audit, changeEnvironment, environmentScript } from "../audit.ts";
import type { StoreClient } from "../connection/client.ts";
import { changeScript, readScript } from "../connection/script.ts";
import { environmentOf } from "../environments.ts";
import { apiTokenKey, apiTokensKey, environmentKey, REVOKED_CHANNEL } from "../keys.ts";
import { isEmpty, recordFromAnswer } from "../records.ts";
import createApiToken from "../scripts/create-api-token.lua" with { type: "text" };
import findApiToken from "../scripts/find-api-token.lua" with { type: "text" };
import noteTokenUse from "../scripts/note-token-use.lua" with { type: "text" };
import readApiTokens from "../scripts/read-api-tokens.lua" with { type: "text" };
import revokeApiTokens from "../scripts/revoke-api-tokens.lua" with { type: "text" };
import rotateApiToken from "../scripts/rotate-api-token.lua" with { type: "text" };
import updateApiToken from "../scripts/update-api-token.lua" with { type: "text" };
import {
  type ApiTokenRecord,
  apiTokenFrom,
  currentOf,
  fieldsOf,
  isReplaced,
  isWanted,
  recordFromHash,
  subjectOf,
  type TokenSecret,
} from "./api-token-record.ts";

export const FIND_API_TOKEN = readScript("find-api-token", { keys: ["environment", "apiToken"], lua: findApiToken });

export const READ_API_TOKENS = readScript("read-api-tokens", {
  ...{ keys: ["apiTokens"], args: ["from", "to", "count"], lua: readApiTokens },
});

export const NOTE_TOKEN_USE = changeScript("note-token-use", {
  ...{ keys: ["apiToken"], args: ["intervalMs"], lua: noteTokenUse },
  // No replica is waited for.
  ...{ singleKey: true, made: [] },
});

export const CREATE_API_TOKEN = environmentScript("create-api-token", {
  keys: ["apiTokens", "apiToken"],
  args: ["member", "maker", "mostTokens", "expireTime", "subject", "channel"],
  lua: createApiToken,
});

export const ROTATE_API_TOKEN = environmentScript("rotate-api-token", {
  keys: ["apiTokens", "apiToken"],
  args: [
    ...["id", "member", "current", "maker", "rotator", "displayName", "expireTime"],
    ...["graceMs", "mostGraced", "subject", "channel"],
  ] as const,
  lua: rotateApiToken,
});

export const UPDATE_API_TOKEN = environmentScript("update-api-token", {
  ...{ keys: ["apiTokens"], args: ["id", "expires", "subject", "changedFields", "channel"], lua: updateApiToken },
});

export const REVOKE_API_TOKENS = environmentScript("revoke-api-tokens", {
  ...{ keys: ["apiTokens"], args: ["id", "issued", "channel"], lua: revokeApiTokens, allowOom: true },
});

/** How many secrets a script reads: more than one API token has. */
const READ_AT_ONCE = 250;

/** What API tokens are stored with. */
export interface ApiTokenDeps {
  readonly client: StoreClient;
  /** Receives the changes by this process; `followRevocations` passes it those by others. */
  readonly listener: Pick<RevocationListener, "revoked">;
  readonly audit: Audit;
}

/** API tokens in Redis. Each secret of a token has a complete record under its digest. */
export function redisApiTokens({ client, listener, audit }: ApiTokenDeps): ApiTokenStore {
  const channel = REVOKED_CHANNEL;

  /** The secrets of API tokens, by their ids, in order of these. @param range as ZRANGEBYLEX has it */
  const readSecrets = async ({ number }: Environment, [begin, to]: readonly [string, string]) => {
    const found = new Map<string, TokenSecret[]>();
    for (let from = begin; ; ) {
      const args = { apiTokens: apiTokensKey(number), from, to, count: READ_AT_ONCE };
      const answer = await client.ask("list-api-tokens", READ_API_TOKENS, args, { outcome: "not_made" });
      const listed: TokenSecret[] = [];
      let last = "";
      let read = 0;
      for (let at = 1; at < answer.length; read++) {
        const [member = "", size] = [answer[at], Number(answer[at + 1])];
        const [id = "", digest = ""] = member.split(" ");
        const hash = recordFromAnswer(answer.slice(at + 2, at + 2 + size), 0);
        at += 2 + size;
        last = id;
        // Otherwise it has expired.
        if (size > 0) listed.push({ id, digest, record: recordFromHash(hash) });
      }
      // More of the last one may follow: it is read again, all at once, unless that is what was done.
      const next = `[${last} `;
      const isWhole = read < READ_AT_ONCE || next === from;
      for (const secret of listed) {
        if (isWhole || secret.id !== last) found.set(secret.id, [...(found.get(secret.id) ?? []), secret]);
      }
      if (read < READ_AT_ONCE) return found;
      from = next === from ? `(${last}~` : next;
    }
  };

  /** The secrets of an API token. @throws ApiTokenNotFound, also if the id is malformed: it may be a token, sent by mistake */
  const secretsOf = async (environment: Environment, id: string): Promise<readonly TokenSecret[]> => {
    if (!isApiTokenId(id)) throw new ApiTokenNotFound();
    const found = await readSecrets(environment, [`[${id} `, `(${id}~`]);
    return found.get(id) ?? [];
  };

  /** The API token after a change. @throws ApiTokenNotFound when it is revoked by now */
  const readAgain = async (environment: Environment, id: string): Promise<ApiToken> => {
    const apiToken = apiTokenFrom(await secretsOf(environment, id));
    if (!apiToken) throw new ApiTokenNotFound();
    return apiToken;
  };

  /** A new secret, where it is stored and how it is listed. */
  const newSecret = ({ number }: Environment, id: string) => {
    const token = newApiToken(number);
    const digest = apiTokenDigest(token);
    const keys = { apiTokens: apiTokensKey(number), apiToken: apiTokenKey(number, digest) };
    return { token, digest, args: { ...keys, member: `${id} ${digest}` } };
  };

  /** The id of the API token that makes another one, as scripts take it. */
  const makerOf = (id: string) => (isApiTokenId(id) ? id : "");

  /** Notifies the listener of a change, also if the change fails: it may be committed. */
  const told = async <T>(digests: readonly string[], change: Promise<T>): Promise<T> => {
    try {
      return await change;
    } finally {
      for (const digest of digests) listener.revoked(digest);
    }
  };

  return {
    async create(environment, { displayName, role, expireTime, creator }, by) {
      const record: ApiTokenRecord = { id: newApiTokenId(), displayName, role, creator };
      const { token, digest, args } = newSecret(environment, record.id as string);
      const stored = { ...record, expireTime: expireTime?.toString() };
      const [state, now] = await changeEnvironment(
        { client, audit, environment, by },
        "create-api-token",
        CREATE_API_TOKEN,
        {
          ...{ ...args, maker: makerOf(creator), mostTokens: MAX_API_TOKENS, expireTime, subject: subjectOf(record) },
          ...{ channel, extraArgs: fieldsOf(stored) },
        },
      );
      if (state === "full") throw new TooManyApiTokens();
      if (state === "changed") throw new ApiTokenChanged();
      const secret = { id: record.id as string, digest, record: { ...stored, tokenCreateTime: now } };
      return { apiToken: apiTokenFrom([secret]) as ApiToken, token };
    },

    async list(environment, filter, { after, size }) {
      const items: ApiToken[] = [];
      for (const secrets of (await readSecrets(environment, [after === "" ? "-" : `(${after}~`, "+"])).values()) {
        const apiToken = apiTokenFrom(secrets);
        if (!apiToken || !isWanted(apiToken, filter)) continue;
        if (items.length === size) return { items, next: items.at(-1)?.id };
        items.push(apiToken);
      }
      return { items, next: undefined };
    },

    async update(environment, id, { displayName, expireTime }, by) {
      const secrets = await secretsOf(environment, id);
      const apiToken = apiTokenFrom(secrets);
      if (!apiToken) throw new ApiTokenNotFound();
      const changed = [
        ...(displayName === undefined || displayName === apiToken.displayName ? [] : ["display_name"]),
        ...(expireTime === undefined || (expireTime ?? undefined) === apiToken.expireTime ? [] : ["expire_time"]),
      ];
      if (changed.length === 0) return apiToken;
      const args = {
        ...{ apiTokens: apiTokensKey(environment.number), id, channel, changedFields: changed.join(",") },
        ...{ expires: expireTime === undefined ? "same" : `${expireTime ?? ""}`, extraArgs: fieldsOf({ displayName }) },
        subject: subjectOf(currentOf(secrets)?.record ?? {}),
      };
      const change = changeEnvironment({ client, audit, environment, by }, "update-api-token", UPDATE_API_TOKEN, args);
      const [state] = await told(
        secrets.map(({ digest }) => digest),
        change,
      );
      if (state === "missing") throw new ApiTokenNotFound();
      return readAgain(environment, id);
    },

    async rotate(environment, id, { graceMs, rotator, notBeyond = Number.POSITIVE_INFINITY }, by) {
      const secrets = await secretsOf(environment, id);
      const [current, before] = [currentOf(secrets), apiTokenFrom(secrets)];
      if (!current || !before) throw new ApiTokenNotFound();
      if (notBeyond < (before.expireTime ?? Number.POSITIVE_INFINITY)) throw new ApiTokenOutlivesCaller();
      const { role, creator, displayName, expireTime } = current.record;
      const { token, args } = newSecret(environment, id);
      const change = changeEnvironment({ client, audit, environment, by }, "rotate-api-token", ROTATE_API_TOKEN, {
        ...{
          ...args,
          id,
          current: `${id} ${current.digest}`,
          maker: makerOf(rotator),
          rotator,
          displayName,
          expireTime,
        },
        ...{ graceMs, mostGraced: MAX_GRACED, subject: subjectOf(current.record), channel },
        extraArgs: fieldsOf({ role, creator, displayName, expireTime }),
      });
      const [state] = await told(
        secrets.map(({ digest }) => digest),
        change,
      );
      if (state === "missing") throw new ApiTokenNotFound();
      if (state === "changed") throw new ApiTokenChanged();
      return { apiToken: await readAgain(environment, id), token };
    },

    async revoke(environment, id, by: ChangeBy, { issued = false } = {}) {
      if (!isApiTokenId(id)) throw new ApiTokenNotFound();
      const args = { apiTokens: apiTokensKey(environment.number), id, issued, channel };
      const change = { client, audit, environment, by };
      const [state, , count, ...digests] = await changeEnvironment(
        change,
        "revoke-api-tokens",
        REVOKE_API_TOKENS,
        args,
      );
      if (state === "missing") throw new ApiTokenNotFound();
      for (const digest of digests) listener.revoked(digest);
      return Number(count);
    },

    async find({ number, digest }) {
      const keys = { environment: environmentKey(number), apiToken: apiTokenKey(number, digest) };
      const whileMoving = async () => {
        const of = (key: string) => client.run("api-token", "hgetall", [key], "not_made");
        const [environment, apiToken] = await Promise.all([of(keys.environment), of(keys.apiToken)]);
        if (environment["state"] !== "active" || isEmpty(apiToken)) return [];
        return [String(Date.now()), environment["path"] ?? "", ...Object.entries(apiToken).flat()];
      };
      // A failure here fails the call before it changes anything.
      const answer = await client.ask("api-token", FIND_API_TOKEN, keys, { outcome: "not_made", whileMoving });
      if (answer.length === 0) return undefined;
      const now = Number(answer[0]);
      const record = recordFromHash(recordFromAnswer(answer));
      if (record.id === undefined) throw new RecordUnreadable(new Error("an API token has no id"));
      const secret: TokenSecret = { id: record.id, digest, record };
      const apiToken = apiTokenFrom([secret]) as ApiToken;
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
