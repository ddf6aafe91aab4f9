import { type Config, ConfigError } from "../config/config.ts";
import { type FilesListener, SettingFiles } from "../config/files.ts";
import type { Logger } from "../observability/log.ts";
import type { Metrics } from "../observability/metrics.ts";
import type { StoreClient } from "../store/connection/client.ts";
import { StoreMisconfigured } from "../store/connection/errors.ts";
import type { RingKey } from "../store/encryption.ts";
import { checkTokenKeys } from "../store/secret-keys/ring.ts";
import type { RedisTokenKeys } from "../store/secret-keys/token-keys.ts";
import { explainStartFailure } from "./start-messages.ts";

/** Watches the files of settings for changes. Logs each change, and provides metrics about the last change. */
export function watchFiles(
  config: Config,
  { use, logger, metrics }: Pick<FilesListener, "use"> & { readonly logger: Logger; readonly metrics: Metrics },
): SettingFiles {
  const states = new Map<string, { isUsed: boolean; time: number }>();
  const note = (setting: string, isUsed: boolean) => {
    const before = states.get(setting);
    states.set(setting, { isUsed, time: isUsed || !before ? Date.now() / 1000 : before.time });
  };
  for (const { setting } of config.files) note(setting, true);
  metrics.gauge({
    name: "ugs_config_last_reload_successful",
    help: "1 if the service uses the current content of the file that a setting names, otherwise 0",
    ofWorkers: "min",
    read: () => [...states].map(([setting, { isUsed }]) => ({ labels: { setting }, value: Number(isUsed) })),
  });
  metrics.gauge({
    name: "ugs_config_last_reload_success_timestamp_seconds",
    help: "Time since which the service uses the current content of the file that a setting names, in seconds since 1970",
    ofWorkers: "min",
    read: () => [...states].map(([setting, { time }]) => ({ labels: { setting }, value: time })),
  });
  const files = new SettingFiles(config, {
    use,
    onResult(changed, error) {
      const settings = [...changed];
      for (const setting of settings) note(setting, error === undefined);
      if (error === undefined) return logger.info({ settings }, "changed files of settings are used");
      const fault = error instanceof ConfigError ? error.faults.join("; ") : explainStartFailure(error);
      logger.warn(
        { settings, error: fault },
        "changed files of settings cannot be used; the service keeps their previous content",
      );
    },
  });
  files.watch();
  return files;
}

/**
 * Requires that the keys in `next` can replace the keys in `ring`, which this process uses now. The workers replace
 * their keys at different times. Until all workers have replaced their keys, each worker must be able to decrypt the
 * tokens that other workers encrypt.
 *
 * @param redis undefined if the service uses the embedded store. In this case, any key of `ring` may be necessary to
 *   decrypt tokens, so `next` must contain all keys of `ring`
 * @throws StoreMisconfigured; errors of `checkTokenKeys` and `requireUnneeded`
 */
export async function requireSuccessor(
  ring: readonly RingKey[],
  next: readonly RingKey[],
  redis: { readonly client: StoreClient; readonly tokenKeys: Pick<RedisTokenKeys, "requireUnneeded"> } | undefined,
): Promise<void> {
  const has = (keys: readonly RingKey[], id: string | undefined) => keys.some((key) => key.id === id);
  const secrets = new Map(ring.map(({ id, secret }) => [id, secret]));
  const other = next.find(({ id, secret }) => Buffer.compare(secrets.get(id) ?? secret, secret) !== 0);
  if (other)
    throw new StoreMisconfigured(`TOKEN_KEYS has a new secret for the id ${other.id}: give the new key another id`);
  const first = next[0]?.id;
  if (!has(ring, first)) {
    throw new StoreMisconfigured(
      `the first key of TOKEN_KEYS, ${first}, is new, so other workers cannot decrypt the tokens that this key encrypts. Put the new key last. When every worker has the new key, put the new key first`,
    );
  }
  const lost = ring.map(({ id }) => id).filter((id) => !has(next, id));
  if (!redis ? lost.length > 0 : !has(next, ring[0]?.id)) {
    throw new StoreMisconfigured(
      `TOKEN_KEYS lacks ${lost.join(", ")}, and stored tokens may need these keys: add the missing keys again`,
    );
  }
  if (redis) await redis.tokenKeys.requireUnneeded(await checkTokenKeys(redis.client, next));
}
