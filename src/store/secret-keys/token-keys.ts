import type { ChangeBy } from "../../domain/audit.ts";
import { type Environment, environmentPath } from "../../domain/environment.ts";
import { RecordUnreadable, TokenKeyInUse } from "../../domain/errors.ts";
import type { PageRequest } from "../../domain/page.ts";
import type { EnvironmentStore } from "../../domain/store.ts";
import type { ByKind, Reencryption, TokenKey, TokenKeyStore } from "../../domain/token-key.ts";
import { writeEvent } from "../audit.ts";
import { StoreMisconfigured } from "../connection/errors.ts";
import {
  encryptedFromRecord,
  FIELD,
  type GroupDeps,
  recordsOf,
  TOKEN_FIELDS,
  tokenFields,
} from "../groups/group-record.ts";
import { listIds } from "../groups/user-group-admin.ts";
import { groupKey, TOKEN_KEYS_KEY } from "../keys.ts";
import { inBatches, isEmpty, readRecord, type StoredRecord, textOf } from "../records.ts";
import { REPLACE_FIELDS, RETIRE_KEY } from "../scripts.ts";
import { NOTE_INTERVAL_MS, recordedKeys } from "./ring.ts";
import { redisSigningKeys } from "./signing-keys.ts";
import { reencryptWebhooks } from "./webhook-secrets.ts";

/**
 * While a process encrypts with a key, the recorded time of the last use is at most this old, in milliseconds. This is
 * true even if two attempts to record the use fail.
 */
const UNRECORDED_MS = 3 * NOTE_INTERVAL_MS;

const READ_AT_ONCE = 250;
const ENCRYPTED_AT_ONCE = 100;

const SEARCH_MS = 2000;

const PAGE_SIZE = 1000;

interface TokenKeyDeps extends GroupDeps {
  readonly environments: Pick<EnvironmentStore, "list">;
}

export class RedisTokenKeys implements TokenKeyStore {
  readonly #deps: TokenKeyDeps;
  readonly #signingKeys: ReturnType<typeof redisSigningKeys>;

  constructor(deps: TokenKeyDeps) {
    this.#deps = deps;
    this.#signingKeys = redisSigningKeys(deps);
  }

  async list() {
    const { client, cipher } = this.#deps;
    const { record, now } = await readRecord(client, "token-keys", TOKEN_KEYS_KEY);
    const held = cipher.ring.map(({ id }) => id);
    const recorded = recordedKeys(record);
    const keys = [...new Set([...held, ...recorded.keys()])].map(
      (id): TokenKey => ({
        id,
        isPrimary: id === cipher.currentKeyId,
        isHeld: held.includes(id),
        isRecorded: recorded.has(id),
        lastEncryptTime: recorded.get(id)?.useTime || undefined,
      }),
    );
    return { keys, readTime: now };
  }

  async reencrypt(environment: Environment, { after, size }: PageRequest, by?: ChangeBy): Promise<Reencryption> {
    const { client, cipher, audit } = this.#deps;
    const isDryRun = by === undefined;
    const uses = new Map<string, ByKind<number>>();
    const failed: ByKind<string[]> = { userGroups: [], signingKeys: [], webhooks: [] };
    const add = (kind: keyof ByKind<unknown>, found: { readonly uses: string[]; readonly failed: string[] }) => {
      for (const keyId of found.uses) {
        const use = uses.get(keyId) ?? { userGroups: 0, signingKeys: 0, webhooks: 0 };
        uses.set(keyId, { ...use, [kind]: use[kind] + 1 });
      }
      failed[kind].push(...found.failed);
    };
    if (after === "") {
      if (by) await writeEvent({ client, audit, environment, by }, { subject: "", changedFields: "token" });
      add("signingKeys", await this.#signingKeys.reencrypt(environment, isDryRun));
      add("webhooks", await reencryptWebhooks(this.#deps, environment, isDryRun));
    }
    const { ids, next } = await listIds(client, environment, { after, prefix: "", size });
    const groups: { uses: string[]; failed: string[] } = { uses: [], failed: [] };
    const needing: [string, StoredRecord][] = [];
    const reading = { operation: "reencrypt-read", atOnce: READ_AT_ONCE, fields: TOKEN_FIELDS };
    for await (const [id, record] of recordsOf(client, environment, ids, reading)) {
      // If the record is empty, the group was deleted after its id was read.
      if (isEmpty(record)) continue;
      const keyId = record[FIELD.keyId] ?? "";
      groups.uses.push(keyId);
      if (keyId !== cipher.currentKeyId) needing.push([id, record]);
    }
    let count = 0;
    const reencrypt = async ([id, record]: [string, StoredRecord]) => {
      try {
        if (await this.#reencryptOne(environment, id, record)) count++;
      } catch (error) {
        if (!(error instanceof RecordUnreadable)) throw error;
        groups.failed.push(id);
      }
    };
    if (!isDryRun) for await (const _ of inBatches(needing, ENCRYPTED_AT_ONCE, reencrypt));
    add("userGroups", groups);
    return { uses, count, failed, next };
  }

  async retire(keyId: string, since: number): Promise<void> {
    if (keyId === this.#deps.cipher.currentKeyId)
      throw new TokenKeyInUse("it is the first key of TOKEN_KEYS, which encrypts tokens");
    const use = await this.#findUse([keyId]);
    if (typeof use === "object") throw new TokenKeyInUse(`${use.path} needs the key; re-encrypt every environment`);
    await this.#remove(keyId, since);
  }

  /**
   * If no environment needs the given keys, retires these keys. The ring must not contain them.
   *
   * @throws StoreMisconfigured if an environment or another worker uses one of these keys, or if the search takes more
   *   than `SEARCH_MS`; the errors of `list`
   */
  async requireUnneeded(keyIds: readonly string[]): Promise<void> {
    if (keyIds.length === 0) return;
    const use = await this.#findUse(keyIds);
    if (use) {
      const lacks =
        typeof use === "object"
          ? `${use.keyId}, which ${use.path} needs`
          : `${keyIds.join(", ")}, which environments may need`;
      throw new StoreMisconfigured(
        `TOKEN_KEYS lacks ${lacks}; add the key after the other keys. Remove the key only after 'ugs keys rotate' has reported that no token needs the key. If you have lost the key, the tokens that it encrypted are lost; to start without these tokens, run: redis-cli HDEL ${TOKEN_KEYS_KEY} ${keyIds.join(" ")}`,
      );
    }
    const { readTime } = await this.list();
    for (const id of keyIds) {
      await this.#remove(id, readTime).catch((error: unknown) => {
        if (!(error instanceof TokenKeyInUse)) throw error;
        throw new StoreMisconfigured(
          `TOKEN_KEYS lacks ${id}, which another worker uses or used in the last ${UNRECORDED_MS / 1000} s; add the key after the other keys`,
        );
      });
    }
  }

  /** @throws TokenKeyInUse if the last recorded use of the key is at or after the time `since - UNRECORDED_MS` */
  async #remove(keyId: string, since: number): Promise<void> {
    const { client } = this.#deps;
    const args = { key: TOKEN_KEYS_KEY, id: keyId, since: since - UNRECORDED_MS };
    const [state, , used] = await client.change("token-keys", RETIRE_KEY, args);
    if (state !== "used") return;
    const from = new Date(Number(used) + UNRECORDED_MS).toISOString();
    throw new TokenKeyInUse(
      `a worker encrypted with the key at ${new Date(Number(used)).toISOString()}: put another key first in TOKEN_KEYS of every worker, and re-encrypt again after ${from}`,
    );
  }

  /**
   * Returns an environment that needs one of the keys. Returns undefined if no environment needs these keys. Returns
   * `late` if the search takes more than `SEARCH_MS`.
   */
  async #findUse(
    keyIds: readonly string[],
  ): Promise<{ readonly keyId: string; readonly path: string } | "late" | undefined> {
    const end = performance.now() + SEARCH_MS;
    for (let path: string | undefined = ""; path !== undefined; ) {
      const { items, next } = await this.#deps.environments.list({ after: path, size: PAGE_SIZE });
      for (const environment of items.filter(({ deleteTime }) => deleteTime === undefined)) {
        for (let after: string | undefined = ""; after !== undefined; ) {
          if (performance.now() > end) return "late";
          const page: Reencryption = await this.reencrypt(environment, { after, size: PAGE_SIZE });
          const keyId = keyIds.find((id) => page.uses.has(id));
          if (keyId !== undefined) return { keyId, path: environmentPath(environment) };
          after = page.next;
        }
      }
      path = next;
    }
    return undefined;
  }

  /**
   * Encrypts a token with the first key of the ring. Returns false if another call has deleted the group or changed its
   * token.
   */
  async #reencryptOne(environment: Environment, id: string, record: StoredRecord): Promise<boolean> {
    const { client, cipher } = this.#deps;
    const digest = textOf(record, FIELD.digest);
    const encrypted = encryptedFromRecord(record);
    const token = cipher.decrypt(environment, encrypted, digest);
    const [state] = await client.change("reencrypt", REPLACE_FIELDS, {
      key: groupKey(environment.number, id),
      field: FIELD.token in record ? FIELD.token : FIELD.foreignToken,
      expected: encrypted.text,
      extraArgs: tokenFields(cipher.encrypt(environment, token, digest)),
    });
    return state === "done";
  }
}
