import { StoreMisconfigured } from "@user-group-service/redis";
import type { Config } from "./config/config.ts";
import { AT_START } from "./domain/audit.ts";
import { type Environment, type EnvironmentName, environmentPath, type NewEnvironment } from "./domain/environment.ts";
import { EnvironmentNotFound, StoreUnavailable } from "./domain/errors.ts";
import type { EnvironmentStore } from "./domain/store.ts";
import { errorFields, type Logger } from "./observability/log.ts";
import type { RingKey } from "./store/encryption/encryption.ts";
import { ENVIRONMENTS_KEY, FORMAT_KEY, TOKEN_KEYS_KEY } from "./store/keys.ts";
import { SET_IF_ABSENT } from "./store/records.ts";
import type { StoreClient } from "./store/redis/client.ts";
import { durabilityWarnings } from "./store/redis/requirements.ts";
import { checkTokenKeys, NOTE_INTERVAL_MS, noteKeyUse } from "./store/secret-keys/ring.ts";
import type { RedisTokenKeys } from "./store/secret-keys/token-keys.ts";
import { isReporter } from "./worker.ts";

/** How long until what could not be checked or restored is tried again, in milliseconds. */
const RETRY_MS = 1000;

/**
 * How often it is checked whether the environments are there, in milliseconds. They are held closed for longer after a
 * deletion (`CLOSED_MS` in `store/environments/environment-deletion.ts`).
 */
const CHECK_MS = 60_000;

/** What the state of Redis is kept with. */
interface RedisStateDeps {
  readonly config: Pick<Config, "minReplicasAck" | "redisUrl">;
  /** The ring that is in use. */
  readonly ring: () => readonly RingKey[];
  readonly tokenKeys: Pick<RedisTokenKeys, "requireUnneeded">;
  readonly client: StoreClient;
  readonly environments: Pick<EnvironmentStore, "ensureEnvironment">;
  readonly logger: Logger;
  /** Told why Redis cannot be used, when a check fails that could not be made at the start. */
  readonly onUnusable: (error: StoreMisconfigured) => void;
}

/**
 * What this process needs of the data in Redis: the layout of this release, the check values of its ring of keys, and the
 * environments of `API_TOKENS`. All are checked at the start. Where Redis has several shards, one that is away does not
 * prevent the start: what it holds is checked when it comes. And all are made again when Redis comes back without them,
 * so that a wrong ring is still detected, and no other environment gets the same numbers.
 */
export class RedisState {
  /** Told of each environment in use that is deleted, or is another one by now. */
  onGone: (environment: Environment) => void = () => {};
  readonly #deps: RedisStateDeps;
  readonly #inUse = new Map<string, Environment>();
  #isChecked = false;
  #isRunning = false;
  #isFailing = false;
  #isClosed = false;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #watching: ReturnType<typeof setInterval> | undefined;
  #noting: ReturnType<typeof setInterval> | undefined;

  constructor(deps: RedisStateDeps) {
    this.#deps = deps;
  }

  /**
   * Checks layout and keys at the start, and tells what an operator should change.
   *
   * @throws StoreMisconfigured, StoreUnavailable, TooFewReplicas
   */
  async check(): Promise<void> {
    const { client, config, logger } = this.#deps;
    await this.#unlessAway(this.#check(), "the layout of its data and TOKEN_KEYS");
    if (!isReporter()) return;
    const warnings = await this.#unlessAway(durabilityWarnings(client, config.minReplicasAck), "what it keeps");
    for (const warning of warnings ?? []) logger.warn(warning);
  }

  /**
   * An environment that this process uses, which is made if it is missing.
   *
   * @throws EnvironmentNotFound when it is deleted; StoreUnavailable, TooFewReplicas, RecordUnreadable
   */
  async use(name: NewEnvironment): Promise<Environment> {
    const path = environmentPath(name);
    const known = this.#inUse.get(path) ?? (await this.#deps.environments.ensureEnvironment(name, AT_START));
    this.#inUse.set(path, known);
    return known;
  }

  /** The same at the start; undefined when it is deleted, or cannot be known because its shard is away. */
  useIfThere(name: NewEnvironment): Promise<Environment | undefined> {
    const path = environmentPath(name);
    const use = this.use(name).catch((error: unknown) => {
      const none = unlessDeleted(error);
      this.#tellDeleted(path);
      return none;
    });
    return this.#unlessAway(use, `the environment ${path}`);
  }

  /** Leaves alone the environments that are no longer used. @param names those that are */
  useOnly(names: readonly EnvironmentName[]): void {
    const paths = new Set(names.map(environmentPath));
    for (const path of this.#inUse.keys()) if (!paths.has(path)) this.#inUse.delete(path);
  }

  /** Notes under which key this process encrypts; when that fails, the next time does it. */
  async noteKeyUse(): Promise<void> {
    const { client, config, ring } = this.#deps;
    const [current] = ring();
    // The embedded store serves this process alone.
    if (config.redisUrl !== undefined && current) await noteKeyUse(client, current).catch(() => {});
  }

  /** Checks from time to time whether the environments are there, and notes which key is in use. */
  watch(): void {
    void this.noteKeyUse();
    this.#noting = setInterval(() => void this.noteKeyUse(), NOTE_INTERVAL_MS).unref();
    this.#watching = setInterval(() => void this.#restoreEnvironments().catch(() => {}), CHECK_MS).unref();
  }

  /** Checks and restores what Redis may have lost; to be called whenever Redis is back. */
  restore(): void {
    // Each connection tells when it is ready. The last one is waited for, unless it does not come.
    if (this.#deps.client.nodes.isReady() && !this.#isRunning) void this.#run();
    else this.#later();
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    clearInterval(this.#watching);
    clearInterval(this.#noting);
  }

  async #run(): Promise<void> {
    const { logger } = this.#deps;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#isRunning = true;
    try {
      await this.#check();
      await this.#restoreEnvironments();
      if (this.#isFailing) logger.info("Redis holds what this process needs of it");
      this.#isFailing = false;
    } catch (error) {
      if (error instanceof StoreMisconfigured && !this.#isChecked) return this.#deps.onUnusable(error);
      if (!this.#isFailing)
        logger.error(
          errorFields(error),
          "Redis is back, but whether it holds what this process needs could not be checked; trying again",
        );
      this.#isFailing = true;
      this.#later();
    } finally {
      this.#isRunning = false;
    }
  }

  #later(): void {
    if (this.#isClosed) return;
    this.#timer ??= setTimeout(() => void this.#run(), RETRY_MS).unref();
  }

  async #check(): Promise<void> {
    const { client, ring, tokenKeys } = this.#deps;
    await checkFormat(client, this.#isChecked);
    const missing = await checkTokenKeys(client, ring());
    // Looking for groups takes time, and a process that serves has looked.
    if (!this.#isChecked) await tokenKeys.requireUnneeded(missing);
    this.#isChecked = true;
  }

  /** Writes again what Redis has lost. Nothing that was deleted comes back, and nothing that was created anew is replaced. */
  async #restoreEnvironments(): Promise<void> {
    for (const [path, known] of this.#inUse) {
      const stored = await this.#deps.environments.ensureEnvironment(known, AT_START).catch(unlessDeleted);
      if (stored?.number === known.number && stored.partitions === known.partitions) continue;
      this.#inUse.delete(path);
      this.onGone(known);
      if (!stored) this.#tellDeleted(path);
      else
        this.#deps.logger.error(
          { environment: path },
          "Redis holds a different environment of this name than before: its API tokens act on that one now",
        );
    }
  }

  #tellDeleted(environment: string): void {
    this.#deps.logger.error(
      { environment },
      "an environment of API_TOKENS is deleted, so its tokens there have ended; take them out, or make it anew with CreateEnvironment",
    );
  }

  /** Waits for a check at the start. If Redis, or the shard that is asked, has gone away by then, it is made later. */
  async #unlessAway<T>(work: Promise<T>, what: string): Promise<T | undefined> {
    const { logger } = this.#deps;
    try {
      return await work;
    } catch (error) {
      if (!(error instanceof StoreUnavailable)) throw error;
      logger.warn(errorFields(error), `Redis does not answer for ${what}: checked when it does`);
      this.#isFailing = true;
      this.#later();
      return undefined;
    }
  }
}

/** @throws the error, unless it says that an environment is deleted */
function unlessDeleted(error: unknown): undefined {
  if (!(error instanceof EnvironmentNotFound)) throw error;
}

/** The number of the layout that this release reads and writes; a release that changes the layout takes the next one. */
export const LAYOUT = "2";

/** The layout of releases that stored no number. */
const FIRST_LAYOUT = "1";

/**
 * Checks whether what Redis holds has the layout of this release, and notes the layout where Redis holds nothing yet.
 *
 * @param wasChecked whether it was checked before: Redis has then lost the number with all else, and it is noted again
 * @throws StoreMisconfigured when it has another; StoreUnavailable; TooFewReplicas
 */
async function checkFormat(client: StoreClient, wasChecked: boolean): Promise<void> {
  // Looks for data before the number: had a worker of this release written the data, the number would be there by then.
  const isUsed = !wasChecked && (await holdsData(client));
  let found = await client.run("format", "get", [FORMAT_KEY]);
  if (found === null && isUsed) found = FIRST_LAYOUT;
  // Another worker may start meanwhile, even one of another release.
  if (found === null)
    [, , found = ""] = await client.change("format", SET_IF_ABSENT, { key: FORMAT_KEY, text: LAYOUT, lastsMs: 0 });
  if (found === LAYOUT) return;
  const writer = Number(found) > Number(LAYOUT) ? "a later" : "an earlier";
  throw new StoreMisconfigured(
    `this Redis holds data of ${writer} release, in layout ${found}; this release has layout ${LAYOUT} and would not find it. ` +
      "Start the release that wrote it, export its groups (ExportUserGroups), and import them (ImportUserGroups) with this release into an empty Redis or another database; or check REDIS_URL",
  );
}

async function holdsData(client: StoreClient): Promise<boolean> {
  const [keys, environments] = await Promise.all([
    client.run("format", "hgetall", [TOKEN_KEYS_KEY]),
    client.run("format", "zrangebylex", [ENVIRONMENTS_KEY, "-", "+", "LIMIT", 0, 1]),
  ]);
  return Object.keys(keys).length > 0 || environments.length > 0;
}
