import type { ApiTokenStore } from "../domain/api-token.ts";
import type { ChangeBy } from "../domain/audit.ts";
import { type Environment, type EnvironmentName, environmentPath, TEAM_IDS, teamIdsOf } from "../domain/environment.ts";
import { ApiTokenNotFound, EnvironmentNotEmpty, EnvironmentNotFound } from "../domain/errors.ts";
import type { EnvironmentDeletion, EnvironmentStore } from "../domain/store.ts";
import type { Audit } from "./audit.ts";
import { ForeignTokens } from "./foreign-tokens.ts";
import { ENVIRONMENTS_KEY, environmentKey, idsKey, KEY, partitionPrefix } from "./keys.ts";
import type { StoreClient } from "./redis/client.ts";

/**
 * How long a partition stays closed, in milliseconds: longer than a worker may believe that the environment is there. Issued
 * API tokens are cached for a day at most, and those of the settings are checked each minute.
 */
export const CLOSED_MS = 25 * 60 * 60 * 1000;

/**
 * How long an environment is held closed that is found to be empty, in milliseconds: a process may end in between. Its
 * deletion begins in the first third of it, and the longest call to Redis takes less than another.
 */
const HELD_MS = 180_000;

/** How many groups a call deletes, and a script at once, and how long a call goes on, in milliseconds. */
const MAX_GROUPS = 10_000;
const GROUPS_AT_ONCE = 100;
const MAX_MS = 5000;

/** How many partitions, or API tokens, are worked on at once, so that Redis has time for its other callers. */
const AT_ONCE = 16;

/** What deletions are made of. */
export interface EnvironmentDeletionParts {
  readonly client: StoreClient;
  readonly audit: Audit;
  readonly environments: Pick<EnvironmentStore, "get" | "countUserGroups">;
  readonly apiTokens: Pick<ApiTokenStore, "list" | "revoke">;
  /** How many groups a call deletes, roughly; default 10,000. */
  readonly maxGroups?: number;
}

/**
 * Deletes environments in Redis. Its record, its API tokens and its partitions are in different slots, so the record says
 * first that it is being deleted, and every step may be repeated:
 *
 * - An environment that has to be empty is closed partition by partition, each only if it has no group, for some minutes.
 * - Its record says that it is being deleted. Nobody finds it any more, so nobody makes an API token in it.
 * - Its API tokens end.
 * - Every partition is closed under the number of the environment, and its groups are deleted.
 * - Its record says that it is deleted, for good. An environment of its name that is made later has another number, so
 *   what still knows the old one creates no group there.
 */
export class RedisEnvironmentDeletion implements EnvironmentDeletion {
  readonly #parts: EnvironmentDeletionParts;
  readonly #foreignTokens: ForeignTokens;

  constructor(parts: EnvironmentDeletionParts) {
    this.#parts = parts;
    this.#foreignTokens = new ForeignTokens(parts.client);
  }

  async delete(name: EnvironmentName, force: boolean, by: ChangeBy): Promise<number> {
    const { client, environments } = this.#parts;
    const environment = await environments.get(name);
    if (!force && (await environments.countUserGroups(environment)) > 0) throw new EnvironmentNotEmpty();
    const sendBy = performance.now() + HELD_MS / 3;
    if (!force && environment.deleteTime === undefined) await this.#hold(environment);
    await this.#mark("ugBeginDeletion", environment, by, force ? undefined : sendBy);
    await this.#endApiTokens(environment, by);
    const left = await this.#clear(environment, force);
    if (left > 0) return left;
    await this.#mark("ugEndDeletion", environment, by);
    // A path that stays listed because this fails leads to nothing.
    const unlist = [ENVIRONMENTS_KEY, environmentPath(environment)] as const;
    await client.change("list-environment", "ugUnlist", unlist).catch(() => {});
    return 0;
  }

  /** Closes an environment without user groups for a moment. @throws EnvironmentNotEmpty */
  async #hold(environment: Environment): Promise<void> {
    const hold = async (partition: number, ms: number) => {
      const args = [
        idsKey(partitionPrefix(environment, partition)),
        closedKeyOf(environment, partition),
        String(ms),
      ] as const;
      const [state] = await this.#parts.client.change("hold-partition", "ugHold", args);
      if (state === "filled") throw new EnvironmentNotEmpty();
    };
    try {
      await eachOf(partitionsOf(environment), (partition) => hold(partition, HELD_MS));
    } catch (error) {
      // What stays closed because this fails opens by itself.
      await eachOf(partitionsOf(environment), (partition) => hold(partition, 0).catch(() => {}));
      throw error;
    }
  }

  /** @throws EnvironmentNotFound when another call has deleted the environment meanwhile */
  async #endApiTokens(environment: Environment, by: ChangeBy): Promise<void> {
    const { apiTokens, environments } = this.#parts;
    for (;;) {
      const { items } = await apiTokens.list(environment, {}, { after: "", size: 1000 });
      if (items.length === 0) return;
      // While it is being deleted no API token is made in it, so these are none of one that was made anew.
      const { number, deleteTime } = await environments.get(environment);
      if (deleteTime === undefined || number !== environment.number) throw new EnvironmentNotFound();
      await eachOf(items, ({ id }) =>
        apiTokens.revoke(environment, id, by).catch((error: unknown) => {
          // Another call has revoked it.
          if (!(error instanceof ApiTokenNotFound)) throw error;
        }),
      );
    }
  }

  /** Closes all partitions and, by force, deletes groups of them. @returns how many are left */
  async #clear(environment: Environment, force: boolean): Promise<number> {
    const { partitions } = environment;
    const maxGroups = force ? (this.#parts.maxGroups ?? MAX_GROUPS) : 0;
    const atOnce = force ? Math.max(1, Math.min(GROUPS_AT_ONCE, Math.floor(maxGroups / partitions))) : 0;
    const end = performance.now() + MAX_MS;
    let budget = maxGroups;
    let left: readonly (readonly [partition: number, count: number])[] = [];
    // Each partition is closed by every call, whatever the call has time for.
    for (let todo = partitionsOf(environment); todo.length > 0; todo = left.map(([partition]) => partition)) {
      const counts = await eachOf(todo, async (partition) => {
        const count = await this.#clearPartition(environment, partition, atOnce);
        return [partition, count] as const;
      });
      left = counts.filter(([, count]) => count > 0);
      budget -= todo.length * atOnce;
      if (budget <= 0 || performance.now() > end) break;
    }
    return left.reduce((sum, [, count]) => sum + count, 0);
  }

  /** @returns how many groups are left */
  async #clearPartition(environment: Environment, partition: number, atOnce: number): Promise<number> {
    const prefix = partitionPrefix(environment, partition);
    const { first } = teamIdsOf(environment, partition);
    const [, , count, ...ended] = await this.#parts.client.change("clear-partition", "ugClear", [
      idsKey(prefix),
      ...[closedKeyOf(environment, partition), String(CLOSED_MS)],
      ...[prefix, String(first), String(TEAM_IDS), String(atOnce)],
    ]);
    for (let i = 0; i + 1 < ended.length; i += 2) {
      this.#foreignTokens.forgetLater(environment, ended[i + 1] as string, ended[i] as string);
    }
    return Number(count);
  }

  /** @throws EnvironmentNotFound when another call has deleted the environment meanwhile */
  async #mark(
    script: "ugBeginDeletion" | "ugEndDeletion",
    environment: Environment,
    by: ChangeBy,
    sendBy?: number,
  ): Promise<void> {
    const { client, audit } = this.#parts;
    const { number } = environment;
    const args = [environmentKey(environment), String(number), ...audit.ofEnvironment(environment, by)] as const;
    const [state] = await client.change("delete-environment", script, args, sendBy);
    if (state === "missing") throw new EnvironmentNotFound();
  }
}

function partitionsOf({ partitions }: Environment): number[] {
  return Array.from({ length: partitions }, (_, partition) => partition);
}

function closedKeyOf(environment: Environment, partition: number): string {
  const { first } = teamIdsOf(environment, partition);
  return `${partitionPrefix(environment, partition)}${KEY.closed}${first}`;
}

/** Works on items, some at once. @returns the results in their order; rejects with the first failure, once none is under way */
async function eachOf<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  for (let start = 0; start < items.length; start += AT_ONCE) {
    const batch = items.slice(start, start + AT_ONCE).map(work);
    await Promise.allSettled(batch);
    results.push(...(await Promise.all(batch)));
  }
  return results;
}
