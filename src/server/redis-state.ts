import { setTimeout as pause } from "node:timers/promises";
import type { ApiTokens } from "../auth/api-tokens.ts";
import type { Config } from "../config/config.ts";
import { AT_START } from "../domain/audit.ts";
import { type Environment, type EnvironmentName, environmentPath } from "../domain/environment.ts";
import { DataNotAcceptable, EnvironmentNotFound, StoreUnavailable } from "../domain/errors.ts";
import { type EnvironmentStore, unlessNotFound } from "../domain/store.ts";
import { errorFields, type Logger } from "../observability/log.ts";
import type { StoreClient } from "../store/connection/client.ts";
import { StoreMisconfigured } from "../store/connection/errors.ts";
import { durabilityWarnings, memoryAdvice } from "../store/connection/info.ts";
import type { TokenCipher } from "../store/encryption.ts";
import type { StoreIdentity } from "../store/identity.ts";
import { FORMAT_KEY } from "../store/keys.ts";
import { checkTokenKeys, NOTE_INTERVAL_MS, noteKeyUse } from "../store/secret-keys/ring.ts";
import type { RedisTokenKeys } from "../store/secret-keys/token-keys.ts";
import { isReporter } from "./worker.ts";

const RETRY_MS = 1000;

/** The interval at which a starting process tests whether a postponed check has succeeded, in milliseconds. */
const PUT_OFF_MS = 5;

/**
 * The minimum and maximum interval at which the process checks that Redis has the environments of `API_TOKENS`, in
 * milliseconds. Between these limits, the interval is the value of `API_TOKEN_CACHE`.
 */
const CHECK_MS = { least: 1000, most: 60_000 };

/**
 * The interval at which the process checks the identity of the data in Redis (see `StoreIdentity`), in milliseconds. A
 * check of each new connection is not enough, because Redis can lose its data while the connections stay open.
 */
const IDENTITY_MS = 1000;

interface RedisStateDeps {
  readonly config: Pick<Config, "apiTokenCacheMs" | "minReplicasAck">;
  readonly cipher: Pick<TokenCipher, "ring">;
  readonly tokenKeys: Pick<RedisTokenKeys, "requireUnneeded">;
  readonly client: StoreClient;
  /** Undefined if the service uses the embedded store. */
  readonly identity: StoreIdentity | undefined;
  readonly environments: Pick<EnvironmentStore, "ensureEnvironment">;
  readonly logger: Logger;
  readonly authenticator: Pick<ApiTokens, "environments" | "forget">;
  /** Called with the error if a postponed check finds that the service cannot use Redis. */
  readonly onUnusable: (error: StoreMisconfigured) => void;
}

/**
 * Checks and restores the data that this process needs in Redis: the layout number, the values that the service uses to
 * detect wrong `TOKEN_KEYS`, and the environments of `API_TOKENS`. If a shard is down, the process starts anyway, and
 * checks the data of this shard when the shard answers. If Redis loses the data, the process writes the data again. So
 * the service still detects wrong keys after the loss, and an environment keeps its number.
 */
export class RedisState {
  readonly #deps: RedisStateDeps;
  readonly #loggedDeletions = new Set<string>();
  #isChecked = false;
  #isFailing = false;
  #isClosed = false;
  #timer: ReturnType<typeof setTimeout> | undefined;
  readonly #timers: ReturnType<typeof setInterval>[] = [];

  constructor(deps: RedisStateDeps) {
    this.#deps = deps;
  }

  /**
   * Checks the data layout and `TOKEN_KEYS` at the start, and logs warnings about the configuration of Redis. If the
   * service uses the embedded store, does nothing.
   *
   * @throws StoreMisconfigured, StoreUnavailable, TooFewReplicas
   */
  async check(): Promise<void> {
    const { client, config, identity, logger } = this.#deps;
    if (!identity) return;
    await this.#unlessAway(this.#check(identity), "the data layout and TOKEN_KEYS");
    // Wait until the check is done, because the service must not use data with another layout, or data that needs other
    // `TOKEN_KEYS`. In a Cluster, do not wait, because one shard may be down.
    while (!this.#isChecked && client.nodes.masters().length < 2) {
      if (this.#isClosed) throw new StoreUnavailable(new Error("closed"));
      await pause(PUT_OFF_MS, undefined, { ref: false });
    }
    if (!isReporter()) return;
    const warnings = await durabilityWarnings(client, config.minReplicasAck).catch(() => []);
    for (const warning of warnings) logger.warn(warning);
    const advice = await memoryAdvice(client).catch(() => undefined);
    if (advice !== undefined) logger.info(advice);
  }

  /**
   * Returns an environment of `API_TOKENS`. If the environment is missing, creates the environment. Does not create an
   * environment that was deleted.
   *
   * @throws EnvironmentNotFound if the environment was deleted. StoreUnavailable, TooFewReplicas, RecordUnreadable
   */
  async use(name: EnvironmentName): Promise<Environment> {
    const path = environmentPath(name);
    const found = await this.#deps.environments.ensureEnvironment(name, AT_START).catch((error: unknown) => {
      if (error instanceof EnvironmentNotFound) this.#logDeletion(path);
      throw error;
    });
    this.#loggedDeletions.delete(path);
    return found;
  }

  /** Calls `use` during the start. Returns undefined if the environment was deleted, or its shard is down. */
  useIfThere(name: EnvironmentName): Promise<Environment | undefined> {
    const path = environmentPath(name);
    return this.#unlessAway(this.use(name).catch(unlessNotFound), `the environment ${path}`);
  }

  deleted(environment: Environment): void {
    if (this.#deps.authenticator.forget(environment.number)) this.#logDeletion(environmentPath(environment));
  }

  /** Records in Redis which key this process uses to encrypt. Ignores a failure, because the next call tries again. */
  async noteKeyUse(): Promise<void> {
    const { client, identity, cipher } = this.#deps;
    const [current] = cipher.ring;
    // The embedded store contains only data of this process, so there is nothing to do.
    if (identity && current) await noteKeyUse(client, current).catch(() => {});
  }

  watch(): void {
    const { config, identity } = this.#deps;
    const note = async () => {
      await identity?.check().catch(() => {});
      await this.noteKeyUse();
      await identity?.noteTime().catch(() => {});
    };
    void note();
    const checkMs = Math.min(Math.max(config.apiTokenCacheMs, CHECK_MS.least), CHECK_MS.most);
    this.#timers.push(
      setInterval(() => void note(), NOTE_INTERVAL_MS).unref(),
      setInterval(() => void this.#restoreEnvironments().catch(() => {}), checkMs).unref(),
    );
    if (identity) this.#timers.push(setInterval(() => void identity.check().catch(() => {}), IDENTITY_MS).unref());
  }

  /**
   * Call this method when a connection to Redis is ready. Schedules one check of the data after `RETRY_MS`, because
   * other connections may become ready in this time. During the start, does nothing, because `check` checks the data.
   */
  restore(): void {
    if (this.#timers.length > 0) this.#later();
  }

  /**
   * Accepts the data in Redis as the data of this service, and restores the data of this process.
   *
   * @throws StoreUnavailable, TooFewReplicas; DataNotAcceptable if the data has another layout, or needs other
   *   `TOKEN_KEYS`
   */
  async accept(): Promise<void> {
    const { client, identity, cipher } = this.#deps;
    // The embedded store contains only data of this process, so there is nothing to do.
    if (!identity) return;
    try {
      const unguarded = client.with({ data: undefined });
      requireLayout((await unguarded.run("format", "get", [FORMAT_KEY])) ?? LAYOUT);
      await checkTokenKeys(unguarded, cipher.ring);
    } catch (error) {
      throw error instanceof StoreMisconfigured ? new DataNotAcceptable(error.message) : error;
    }
    await identity.accept();
    await this.#run();
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    for (const timer of this.#timers) clearInterval(timer);
  }

  async #run(): Promise<void> {
    const { identity, logger } = this.#deps;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (!identity) return;
    try {
      await identity.check();
      // If this process refuses the data, it must not write before an operator accepts the data.
      if (identity.refusal()) return;
      await this.#check(identity);
      await this.#restoreEnvironments();
      if (this.#isFailing) logger.info("the check of the data in Redis succeeded");
      this.#isFailing = false;
    } catch (error) {
      if (error instanceof StoreMisconfigured && !this.#isChecked) return this.#deps.onUnusable(error);
      if (!this.#isFailing)
        logger.error(
          errorFields(error),
          "Redis answers again, but the check of its data failed; the service repeats the check",
        );
      this.#isFailing = true;
      this.#later();
    }
  }

  #later(): void {
    if (this.#isClosed) return;
    this.#timer ??= setTimeout(() => void this.#run(), RETRY_MS).unref();
  }

  async #check(identity: StoreIdentity): Promise<void> {
    const { client, cipher, tokenKeys } = this.#deps;
    await checkFormat(client, identity, this.#isChecked);
    const missing = await checkTokenKeys(client, cipher.ring);
    // Only the first check searches for data that needs a key that `TOKEN_KEYS` lacks, because the search is slow.
    if (!this.#isChecked) await tokenKeys.requireUnneeded(missing);
    this.#isChecked = true;
  }

  /** Recreates the environments that Redis has lost. Does not create environments that were deleted. */
  async #restoreEnvironments(): Promise<void> {
    const { authenticator, identity, logger } = this.#deps;
    if (identity?.refusal()) return;
    for (const known of authenticator.environments) {
      const stored = await this.use(known).catch(unlessNotFound);
      if (stored?.number === known.number) continue;
      authenticator.forget(known.number);
      if (!stored) continue;
      logger.error(
        { environment: environmentPath(known) },
        "a different environment in Redis now has this name, and the entries of API_TOKENS give access to that environment",
      );
    }
  }

  /** Logs the deletion of an environment once. If the environment is created again, also logs its next deletion. */
  #logDeletion(environment: string): void {
    if (this.#loggedDeletions.has(environment)) return;
    this.#loggedDeletions.add(environment);
    this.#deps.logger.error(
      { environment },
      "an environment of API_TOKENS was deleted, so its entries are invalid: remove the entries from API_TOKENS, or create the environment again with CreateEnvironment",
    );
  }

  /**
   * Returns the result of a check during the start. If Redis or the shard of the data is down, postpones the check and
   * returns undefined.
   */
  async #unlessAway<T>(work: Promise<T>, what: string): Promise<T | undefined> {
    const { logger } = this.#deps;
    try {
      return await work;
    } catch (error) {
      if (!(error instanceof StoreUnavailable)) throw error;
      logger.warn(
        errorFields(error),
        `Redis did not answer the check of ${what}: the service repeats the check when Redis answers`,
      );
      this.#isFailing = true;
      this.#later();
      return undefined;
    }
  }
}

/** The number of the layout of this release. A release that changes the layout uses the next number. */
export const LAYOUT = "3";

const FIRST_LAYOUT = "1";

/**
 * Checks the layout of the data in Redis. If the data has no identity, gives the data a new identity.
 *
 * @param wasChecked whether this process has checked the data before
 * @throws StoreMisconfigured if the data does not have the layout of this release; StoreUnavailable; TooFewReplicas
 */
async function checkFormat(client: StoreClient, identity: StoreIdentity, wasChecked: boolean): Promise<void> {
  let found = await client.run("format", "get", [FORMAT_KEY]);
  // While `holdsData` scanned the keys, another worker of this release may have written the layout number and data, so
  // read the number again.
  if (found === null && !wasChecked && (await holdsData(client)))
    found = (await client.run("format", "get", [FORMAT_KEY])) ?? FIRST_LAYOUT;
  requireLayout(found ?? LAYOUT);
  // In the meantime, a worker of another release may have written its layout number, so check the layout again.
  requireLayout(await identity.adopt());
}

function requireLayout(format: string): void {
  const [found = ""] = format.split(" ");
  if (found === LAYOUT) return;
  const writer = Number(found) > Number(LAYOUT) ? "a later" : "an earlier";
  throw new StoreMisconfigured(
    `this Redis holds data of ${writer} release with layout ${found}, but this release has layout ${LAYOUT}. ` +
      "If REDIS_URL is wrong, correct it. Otherwise export the groups with the release that wrote the data (ExportUserGroups). Then import the groups with this release into an empty Redis or another database (ImportUserGroups)",
  );
}

/**
 * Matches the Redis keys of environments. Such a key contains the number of the environment. In earlier layouts, such a
 * key begins with `ug:env:`.
 */
const OF_ENVIRONMENT = /^ug:(?:env:|\{\d+\}:)/;

/**
 * Returns whether Redis has a key of an environment. Ignores all other keys of the service, because a running process
 * may write these keys after Redis was emptied. The scan takes about a second per million keys of other applications,
 * so the service scans only if Redis has no layout number.
 */
export async function holdsData(client: Pick<StoreClient, "each">): Promise<boolean> {
  /** The SCAN cursor of each node. If the scan of a node is complete, the cursor is `0`. */
  let cursors = new Map<string, string>();
  do {
    const pages = await client.each("format", async (redis, name) => {
      const cursor = cursors.get(name);
      if (cursor === "0") return { name, cursor, keys: [] };
      const [next, keys] = await redis.scan(cursor ?? 0, "MATCH", "ug:*", "COUNT", 1000);
      return { name, cursor: next, keys };
    });
    if (pages.some(({ keys }) => keys.some((key) => OF_ENVIRONMENT.test(key)))) return true;
    cursors = new Map(pages.map(({ name, cursor }) => [name, cursor]));
  } while ([...cursors.values()].some((cursor) => cursor !== "0"));
  return false;
}
