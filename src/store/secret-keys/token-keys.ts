import type { ChangeBy } from "../../domain/audit.ts";
import { type Environment, environmentPath } from "../../domain/environment.ts";
import { RecordUnreadable, StoreUnavailable, TokenKeyInUse } from "../../domain/errors.ts";
import type { PageRequest } from "../../domain/page.ts";
import type { EnvironmentStore } from "../../domain/store.ts";
import type { Reencryption, TokenKey, TokenKeyStore } from "../../domain/token-key.ts";
import { writeEvent } from "../audit.ts";
import { StoreMisconfigured } from "../connection/errors.ts";
import { encryptedFromRecord, FIELD, type GroupDeps, recordsOf, TOKEN_FIELDS } from "../groups/group-record.ts";
import { listIds } from "../groups/user-group-admin.ts";
import { groupKey, TOKEN_KEY_USES_KEY, TOKEN_KEYS_KEY } from "../keys.ts";
import { inBatches, isEmpty, recordFromAnswer, type StoredRecord, textOf } from "../records.ts";
import { READ, REENCRYPT_TOKEN, RETIRE_KEY } from "../scripts.ts";
import { NOTE_INTERVAL_MS } from "./ring.ts";
import { redisSigningKeys } from "./signing-keys.ts";

/** For how long a process may encrypt under a key without having noted it, in milliseconds: a few notes may fail. */
const UNNOTED_MS = 3 * NOTE_INTERVAL_MS;

/** How many groups are read at once, and encrypted at once. */
const READ_AT_ONCE = 250;
const ENCRYPTED_AT_ONCE = 100;

/** How often a group is tried again that others change meanwhile. */
const TRIES = 10;

/** How long the search for a use of a key takes at most, in milliseconds. */
const LOOK_MS = 2000;

const PAGE_SIZE = 1000;

/** What keys are changed with. */
export interface TokenKeyDeps extends GroupDeps {
  readonly environments: Pick<EnvironmentStore, "find" | "list">;
}

/** The keys that tokens in Redis are encrypted under. */
export class RedisTokenKeys implements TokenKeyStore {
  readonly #deps: TokenKeyDeps;
  readonly #signingKeys: ReturnType<typeof redisSigningKeys>;

  constructor(deps: TokenKeyDeps) {
    this.#deps = deps;
    this.#signingKeys = redisSigningKeys(deps);
  }

  async list() {
    const { client, cipher } = this.#deps;
    const [answer, uses] = await Promise.all([
      client.ask("token-keys", READ, { key: TOKEN_KEYS_KEY }),
      client.run("token-keys", "hgetall", [TOKEN_KEY_USES_KEY]),
    ]);
    const held = cipher.keyIds;
    const recorded = recordFromAnswer(answer);
    const keys = [...new Set([...held, ...Object.keys(recorded)])].map((id): TokenKey => {
      const used = Number(uses[id]);
      return {
        id,
        isPrimary: id === held[0],
        isHeld: held.includes(id),
        isRecorded: recorded[id] !== undefined,
        lastEncryptTime: used > 0 ? used : undefined,
      };
    });
    // The embedded store notes no keys, and has the clock of this process.
    return { keys, readTime: answer[1] === undefined ? Date.now() : Number(answer[1]) };
  }

  async reencrypt(environment: Environment, { after, size }: PageRequest, isDryRun: boolean): Promise<Reencryption> {
    const { client, cipher } = this.#deps;
    const uses = new Map<string, number>();
    const failed: string[] = [];
    const ofSigningKeys = after === "" ? await this.#signingKeys.reencrypt(environment, isDryRun) : NO_SIGNING_KEYS;
    const signing = { signingKeyUses: countsOf(ofSigningKeys.uses), failedSigningKeys: ofSigningKeys.failed };
    let count = 0;
    const { ids, next } = await listIds(client, environment, { after, prefix: "", size });
    const needing: [string, StoredRecord][] = [];
    const reading = { operation: "reencrypt-read", atOnce: READ_AT_ONCE, fields: TOKEN_FIELDS };
    for await (const [id, record] of recordsOf(client, environment, ids, reading)) {
      // It was deleted since the ids were read.
      if (isEmpty(record)) continue;
      const keyId = record[FIELD.keyId] ?? "";
      uses.set(keyId, (uses.get(keyId) ?? 0) + 1);
      if (keyId !== cipher.keyIds[0]) needing.push([id, record]);
    }
    const reencrypt = async ([id, record]: [string, StoredRecord]) => {
      try {
        if (await this.#reencryptOne(environment, id, record)) count++;
      } catch (error) {
        if (!(error instanceof RecordUnreadable)) throw error;
        failed.push(id);
      }
    };
    if (!isDryRun) for await (const _ of inBatches(needing, ENCRYPTED_AT_ONCE, reencrypt));
    return { ...signing, uses, count, failed, next };
  }

  async recordReencryption(environment: Environment, by: ChangeBy): Promise<void> {
    const { client, audit } = this.#deps;
    await writeEvent({ client, audit, environment, by }, { subject: "", changedFields: "token" });
  }

  async retire(keyId: string, since: number): Promise<void> {
    if (keyId === this.#deps.cipher.keyIds[0])
      throw new TokenKeyInUse("it is the first of TOKEN_KEYS, under which tokens are encrypted");
    const { use } = await this.#findUse([keyId]);
    if (use) throw new TokenKeyInUse(`${use.path} needs it: re-encrypt every environment`);
    await this.#forget(keyId, since);
  }

  /**
   * Requires that nothing needs keys that a ring lacks, and forgets these keys.
   *
   * @throws StoreMisconfigured when an environment needs one, when the search takes too long, or when a worker encrypts under
   *   one; as `list`
   */
  async requireUnneeded(keyIds: readonly string[]): Promise<void> {
    if (keyIds.length === 0) return;
    const { use, isWhole } = await this.#findUse(keyIds);
    if (use || !isWhole) {
      const lacks = use ? `${use.keyId}, which ${use.path} needs` : `${keyIds.join(", ")}, which environments may need`;
      throw new StoreMisconfigured(
        `TOKEN_KEYS lacks ${lacks}; add it behind the others, and take it out when 'ugs keys rotate' says that it may be retired. If it is lost, what it encrypted is, too: start without it with: redis-cli HDEL ${TOKEN_KEYS_KEY} ${keyIds.join(" ")}`,
      );
    }
    const { readTime } = await this.list();
    for (const id of keyIds) {
      await this.#forget(id, readTime).catch((error: unknown) => {
        if (!(error instanceof TokenKeyInUse)) throw error;
        throw new StoreMisconfigured(
          `TOKEN_KEYS lacks ${id}, under which another worker encrypts, or did so in the last ${UNNOTED_MS / 1000} s; add it behind the others`,
        );
      });
    }
  }

  /** @throws TokenKeyInUse when a process has encrypted under the key since shortly before a time */
  async #forget(keyId: string, since: number): Promise<void> {
    const { client } = this.#deps;
    const args = { key: TOKEN_KEYS_KEY, uses: TOKEN_KEY_USES_KEY, id: keyId, since: since - UNNOTED_MS };
    const [state, , used] = await client.change("token-keys", RETIRE_KEY, args);
    if (state !== "used") return;
    const from = new Date(Number(used) + UNNOTED_MS).toISOString();
    throw new TokenKeyInUse(
      `a worker encrypted under it at ${new Date(Number(used)).toISOString()}: put another key first in TOKEN_KEYS of every worker, and re-encrypt anew, not before ${from}`,
    );
  }

  /** Searches, for some seconds, for an environment that needs one of some keys. `isWhole`: it searched all environments. */
  async #findUse(
    keyIds: readonly string[],
  ): Promise<{ readonly use?: { readonly keyId: string; readonly path: string }; readonly isWhole: boolean }> {
    const end = performance.now() + LOOK_MS;
    for (let path: string | undefined = ""; path !== undefined; ) {
      const { items, next } = await this.#deps.environments.list({ after: path, size: PAGE_SIZE });
      for (const environment of items.filter(({ deleteTime }) => deleteTime === undefined)) {
        for (let after: string | undefined = ""; after !== undefined; ) {
          if (performance.now() > end) return { isWhole: false };
          const page: Reencryption = await this.reencrypt(environment, { after, size: PAGE_SIZE }, true);
          const keyId = keyIds.find((id) => page.uses.has(id) || page.signingKeyUses.has(id));
          if (keyId) return { use: { keyId, path: environmentPath(environment) }, isWhole: false };
          after = page.next;
        }
      }
      path = next;
    }
    return { isWhole: true };
  }

  /** @param seen its record when it was read. @returns false when there was no need */
  async #reencryptOne(environment: Environment, id: string, seen: StoredRecord): Promise<boolean> {
    const { client, cipher } = this.#deps;
    const key = groupKey(environment.number, id);
    let record = seen;
    for (let tries = 0; tries < TRIES; tries++) {
      const [current] = cipher.keyIds;
      if (isEmpty(record) || record[FIELD.keyId] === current) return false;
      const digest = textOf(record, FIELD.digest);
      const token = cipher.decrypt(environment, encryptedFromRecord(record), digest);
      const { keyId, text, isPacked } = cipher.encrypt(environment, token, digest);
      const extraArgs = [FIELD.keyId, keyId, isPacked ? FIELD.token : FIELD.foreignToken, text];
      const args = { group: key, digest, was: textOf(record, FIELD.keyId), extraArgs };
      const [state] = await client.change("reencrypt", REENCRYPT_TOKEN, args);
      if (state === "done") return true;
      record = await client.run("reencrypt-read", "hgetall", [key]);
    }
    throw new StoreUnavailable(new Error("reencrypt: others change the group all the time"), "not_made");
  }
}

const NO_SIGNING_KEYS = { uses: [], failed: [] };

function countsOf(ids: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const id of ids) counts.set(id, (counts.get(id) ?? 0) + 1);
  return counts;
}
