import { describe, expect, it } from "vitest";
import { MAX_PARTITIONS } from "./environment.ts";
import { ENVIRONMENT_NUMBERS, TEAM_IDS, teamIdsOf } from "./team-id.ts";

const environment = (number: number, partitions: number) => ({ name: "e", tag: undefined, partitions, number });

describe("the team ids of a partition", () => {
  it.each([
    [1, 1],
    [1, 64],
    [7, 3],
    [ENVIRONMENT_NUMBERS - 1, 64],
    [ENVIRONMENT_NUMBERS - 1, MAX_PARTITIONS],
  ])("of environment %i with %i partitions are its alone, and below 2^53", (number, partitions) => {
    let total = 0;
    for (let partition = 0; partition < partitions; partition++) {
      const { first, step, count } = teamIdsOf(environment(number, partitions), partition);
      const last = first + step * (count - 1);
      expect(first).toBeGreaterThanOrEqual(number * TEAM_IDS);
      expect(last).toBeLessThan((number + 1) * TEAM_IDS);
      expect(Number.isSafeInteger(last)).toBe(true);
      // One more would belong to the next environment.
      expect(last + step).toBeGreaterThanOrEqual((number + 1) * TEAM_IDS);
      expect((first - number * TEAM_IDS) % partitions).toBe(partition);
      total += count;
    }
    // Not one is left out, and none belongs to two partitions.
    expect(total).toBe(TEAM_IDS);
  });
});
