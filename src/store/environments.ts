import { createHash } from "node:crypto";
import {
  DEFAULT_PARTITIONS,
  type Environment,
  type EnvironmentName,
  environmentPath,
  MAX_PARTITIONS,
} from "../domain/environment.ts";
import { RecordUnreadable } from "../domain/errors.ts";
import type { EnvironmentStore } from "../domain/store.ts";
import { ENVIRONMENT_NUMBERS } from "../domain/team-id.ts";
import type { StoreClient } from "./client.ts";
import { environmentKey, environmentNumberKey } from "./keys.ts";
import { type GroupRecord, recordFromAnswer } from "./record.ts";

/** How many numbers are tried for a new environment: with a tenth of all taken, one in 10^12 finds none free. */
const TRIES = 12;

/** Environments in Redis. */
export class RedisEnvironments implements EnvironmentStore {
  readonly #client: StoreClient;

  constructor(client: StoreClient) {
    this.#client = client;
  }

  /**
   * @throws StoreUnavailable; TooFewReplicas when it was made; RecordUnreadable
   *   when what is stored of it is no number, or none is left
   */
  async ensureEnvironment(name: EnvironmentName & { readonly partitions?: number }): Promise<Environment> {
    // Nearly always it is there, and nothing need be changed.
    let record: GroupRecord = await this.#client.run("environment", environmentKey(name), (redis) =>
      redis.hgetall(environmentKey(name)),
    );
    if (record["partitions"] === undefined) {
      const partitions = String(name.partitions ?? DEFAULT_PARTITIONS);
      record = await this.#adopt(name, "partitions", partitions, "create_time", String(Date.now()));
    }
    if (record["number"] === undefined) record = await this.#adopt(name, "number", String(await this.#number(name)));
    return {
      name: name.name,
      tag: name.tag,
      partitions: numberOf(name, record, "partitions", MAX_PARTITIONS),
      number: numberOf(name, record, "number", ENVIRONMENT_NUMBERS - 1),
    };
  }

  async #adopt(name: EnvironmentName, ...fields: string[]) {
    const answer = await this.#client.change("environment", environmentKey(name), (redis, deadline) =>
      redis.ugAdopt(environmentKey(name), deadline, ...fields),
    );
    return recordFromAnswer(answer);
  }

  /**
   * Gives an environment a number of its own. It follows from the name, so that
   * it is the same again should Redis have forgotten it, but not the groups
   * that were made under it; only where two names lead to one number does the
   * later one take another.
   */
  async #number(name: EnvironmentName): Promise<number> {
    const path = environmentPath(name);
    for (let tries = 0; tries < TRIES; tries++) {
      const number = wantedNumber(path, tries);
      const [, , owner] = await this.#client.change(
        "environment-number",
        environmentNumberKey(number),
        (redis, deadline) => redis.ugClaim(environmentNumberKey(number), deadline, path, "0"),
      );
      if (owner === path) return number;
    }
    throw new RecordUnreadable(new Error(`no number is left for the environment ${path}`));
  }
}

/** The number that an environment takes when those of the tries before are another's. */
export function wantedNumber(path: string, tries: number): number {
  const hash = createHash("sha256").update(`${tries}\0${path}`).digest().readUInt32BE();
  return 1 + (hash % (ENVIRONMENT_NUMBERS - 1));
}

function numberOf(
  name: EnvironmentName,
  record: Readonly<Record<string, string | undefined>>,
  field: string,
  max: number,
) {
  const value = Number(record[field]);
  if (!Number.isInteger(value) || value < 1 || value > max) {
    throw new RecordUnreadable(new Error(`${environmentKey(name)} holds no usable ${field}`));
  }
  return value;
}
