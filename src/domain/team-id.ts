import type { Environment } from "./environment.ts";

/** How many numbers environments can have; 0 is none of them. */
export const ENVIRONMENT_NUMBERS = 2 ** 20;

/** How many team ids an environment has, for all groups that it ever holds: 8.6 thousand million. */
export const TEAM_IDS = 2 ** 33;

/**
 * The team ids of a partition: `first`, and then every `step`th, `count` in all.
 *
 * A team id is the number of the environment, then, in 33 bits, how many groups
 * the partition has made before times the number of partitions, plus the
 * partition. It stays below 2^53. Partitions share nothing, so each can count
 * for itself, in the place where its groups are: what forgets the count forgets
 * the groups that were counted.
 */
export function teamIdsOf(environment: Environment, partition: number) {
  const { number, partitions } = environment;
  return {
    first: number * TEAM_IDS + partition,
    step: partitions,
    count: Math.floor((TEAM_IDS - 1 - partition) / partitions) + 1,
  };
}
