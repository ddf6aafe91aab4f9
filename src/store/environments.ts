import { DEFAULT_PARTITIONS, type Environment, type EnvironmentName, MAX_PARTITIONS } from "../domain/environment.ts";
import { RecordUnreadable } from "../domain/errors.ts";
import type { EnvironmentStore } from "../domain/store.ts";
import type { StoreClient } from "./client.ts";
import { environmentKey } from "./keys.ts";

/** Environments in Redis. */
export class RedisEnvironments implements EnvironmentStore {
  readonly #client: StoreClient;

  constructor(client: StoreClient) {
    this.#client = client;
  }

  /** @throws StoreUnavailable, RecordUnreadable when its partitions are not a number */
  async ensureEnvironment(name: EnvironmentName): Promise<Environment> {
    const key = environmentKey(name);
    const [, , stored] = await this.#client.change("environment", (redis) =>
      Promise.all([
        redis.hsetnx(key, "partitions", DEFAULT_PARTITIONS),
        redis.hsetnx(key, "create_time", Date.now()),
        redis.hget(key, "partitions"),
      ]),
    );
    const partitions = Number(stored);
    if (!Number.isInteger(partitions) || partitions < 1 || partitions > MAX_PARTITIONS) {
      throw new RecordUnreadable(new Error(`${key} holds no usable number of partitions`));
    }
    return { name: name.name, tag: name.tag, partitions };
  }
}
