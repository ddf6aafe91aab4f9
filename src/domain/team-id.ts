import type { Environment } from "./environment.ts";

/** The number of environment numbers; 0 is never used. */
export const ENVIRONMENT_NUMBERS = 2 ** 20;

/** The number of team ids of an environment, for all groups ever created in it: 8.6 billion (8.6e9). */
export const TEAM_IDS = 2 ** 33;

/**
 * The team ids of a partition: `first`, then every `step`th, `count` in all.
 *
 * A team id has the environment's number in its high bits. The low 33 bits are the number of groups that the partition
 * created before, times the number of partitions, plus the partition. A team id stays below 2^53. Partitions share
 * nothing, so each counts for itself, where its groups are stored: if the count is lost, so are the groups that it
 * counted.
 */
export function teamIdsOf(environment: Environment, partition: number) {
  const { number, partitions } = environment;
  return {
    first: number * TEAM_IDS + partition,
    step: partitions,
    count: Math.floor((TEAM_IDS - 1 - partition) / partitions) + 1,
  };
}
