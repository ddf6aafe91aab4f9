import { type Config, ConfigError } from "../config/config.ts";
import { SettingFiles } from "../config/files.ts";
import type { FileSetting } from "../config/settings.ts";
import type { Logger } from "../observability/log.ts";
import type { Metrics } from "../observability/metrics.ts";
import type { StoreClient } from "../store/connection/client.ts";
import { StoreMisconfigured } from "../store/connection/errors.ts";
import type { RingKey } from "../store/encryption.ts";
import { checkTokenKeys } from "../store/secret-keys/ring.ts";
import type { RedisTokenKeys } from "../store/secret-keys/token-keys.ts";
import { explainStartFailure } from "./start-messages.ts";

/** Has a part of the service use settings whose files have changed; throws when it cannot. */
export type Reload = (config: Config, changed: ReadonlySet<FileSetting>) => Promise<void>;

/** Watches the files of the settings, and counts and logs what becomes of those that change. */
export function watchFiles(
  config: Config,
  { use, logger, metrics }: { readonly use: Reload; readonly logger: Logger; readonly metrics: Metrics },
): SettingFiles {
  const states = new Map<string, { isUsed: boolean; time: number }>();
  const note = (setting: string, isUsed: boolean) => {
    const before = states.get(setting);
    states.set(setting, { isUsed, time: isUsed || !before ? Date.now() / 1000 : before.time });
  };
  for (const { setting } of config.files) note(setting, true);
  // Of several workers the lowest value is shown: that of one that is behind.
  metrics.gauge({
    name: "ugs_config_last_reload_successful",
    help: "Whether what the file of a setting holds is in use: 1, or 0, by setting",
    ofWorkers: "min",
    read: () => [...states].map(([setting, { isUsed }]) => ({ labels: { setting }, value: Number(isUsed) })),
  });
  metrics.gauge({
    name: "ugs_config_last_reload_success_timestamp_seconds",
    help: "Since when a content of the file of a setting is in use, by setting, since 1970",
    ofWorkers: "min",
    read: () => [...states].map(([setting, { time }]) => ({ labels: { setting }, value: time })),
  });
  const files = new SettingFiles(config, {
    use,
    onResult(changed, error) {
      const settings = [...changed];
      for (const setting of settings) note(setting, error === undefined);
      if (error === undefined) return logger.info({ settings }, "the files of settings have changed, and are used");
      const fault = error instanceof ConfigError ? error.faults.join("; ") : explainStartFailure(error);
      logger.warn(
        { settings, error: fault },
        "files of settings cannot be used; the service keeps what they held before",
      );
    },
  });
  files.watch();
  return files;
}

/**
 * Requires that a ring of keys can take the place of another while both are in use: workers do not change theirs at the same
 * instant, and each has to decrypt what the others encrypt.
 *
 * @param redis undefined: the embedded store, whose tokens may be encrypted under any key
 * @throws StoreMisconfigured; as `checkTokenKeys` and `requireUnneeded`
 */
export async function requireSuccessor(
  ring: readonly RingKey[],
  next: readonly RingKey[],
  redis: { readonly client: StoreClient; readonly tokenKeys: Pick<RedisTokenKeys, "requireUnneeded"> } | undefined,
): Promise<void> {
  const has = (keys: readonly RingKey[], id: string | undefined) => keys.some((key) => key.id === id);
  const secrets = new Map(ring.map(({ id, secret }) => [id, secret]));
  const other = next.find(({ id, secret }) => Buffer.compare(secrets.get(id) ?? secret, secret) !== 0);
  if (other) throw new StoreMisconfigured(`TOKEN_KEYS holds another key ${other.id}: give a new key an id of its own`);
  const first = next[0]?.id;
  if (!has(ring, first)) {
    throw new StoreMisconfigured(
      `the first key of TOKEN_KEYS, ${first}, is new: other workers could not read what it encrypts. Put it behind the others, and first once every worker has it`,
    );
  }
  const lost = ring.map(({ id }) => id).filter((id) => !has(next, id));
  if (!redis ? lost.length > 0 : !has(next, ring[0]?.id)) {
    throw new StoreMisconfigured(`TOKEN_KEYS lacks ${lost.join(", ")}, which may have encrypted tokens; add it again`);
  }
  if (redis) await redis.tokenKeys.requireUnneeded(await checkTokenKeys(redis.client, next));
}
