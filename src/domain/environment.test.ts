import { describe, expect, it } from "vitest";
import {
  DEFAULT_PARTITIONS,
  ENVIRONMENT_NUMBERS,
  environmentPath,
  MAX_PARTITIONS,
  parseEnvironmentName,
  partitionOf,
  TEAM_IDS,
  teamIdsOf,
} from "./environment.ts";

const environment = (number: number, partitions: number) => ({ name: "e", tag: undefined, partitions, number });

describe("the name of an environment", () => {
  it.each([
    ["acme", { name: "acme", tag: undefined }, "acme/"],
    ["acme/Customer", { name: "acme", tag: "Customer" }, "acme/Customer"],
    ["acme/Testing", { name: "acme", tag: "Testing" }, "acme/Testing"],
    ["A.b_c-9", { name: "A.b_c-9", tag: undefined }, "A.b_c-9/"],
    ["x".repeat(64), { name: "x".repeat(64), tag: undefined }, `${"x".repeat(64)}/`],
  ] as const)("may be %s", (text, name, path) => {
    expect(parseEnvironmentName(text)).toEqual(name);
    expect(environmentPath(name)).toBe(path);
  });

  it.each([
    ...["", "/", "/Customer", "acme/", "acme/customer", "acme/CUSTOMER", "acme/Production", "acme/Customer/"],
    ...["acme/Customer/x", "acme /Customer", "acme\n", "acme/Customer\n", "ac{me}", "ümlaut", "x".repeat(65)],
    // URLs lose them, and with them the place where the keys of viewer sessions are published.
    ...[".", "..", "./Customer", "../Testing", ".acme"],
  ])("may not be %j", (text) => expect(parseEnvironmentName(text)).toBeUndefined());

  it("gives every name and tag a path of its own", () => {
    const texts = ["a", "a/Customer", "a/Testing", "a.Customer", "aCustomer", "A"];
    const paths = texts.map((text) => environmentPath(parseEnvironmentName(text) ?? { name: "", tag: undefined }));
    expect(new Set(paths).size).toBe(texts.length);
  });
});

it("numbers at most as many partitions as a token can carry", () => expect(MAX_PARTITIONS).toBe(3844));

describe("the partition of an id", () => {
  // The check value of CRC-16/XMODEM, and slots that Redis' own documentation and CLUSTER KEYSLOT give.
  it.each([
    ["123456789", 0x31c3],
    ["somekey", 11058],
    ["foo", 12182],
    ["é", 10180],
    ["👪", 13375],
  ])("of %s is what Redis Cluster's slots are counted by", (id, crc) => {
    expect(partitionOf(environment(1, 16_384), id)).toBe(crc % 16_384);
    expect(partitionOf(environment(1, 64), id)).toBe(crc % 64);
  });

  it("is 0 where there is one partition", () => {
    for (const id of ["a", "b", "__proto__", "👪"]) expect(partitionOf(environment(1, 1), id)).toBe(0);
  });

  it.each([DEFAULT_PARTITIONS, MAX_PARTITIONS])("spreads ids evenly over %i", (partitions) => {
    const counts = new Array<number>(partitions).fill(0);
    const ids = partitions * 100;
    for (let i = 0; i < ids; i++) {
      const partition = partitionOf(environment(1, partitions), `customer-${i}`);
      counts[partition] = (counts[partition] ?? Number.NaN) + 1;
    }
    expect(counts).toHaveLength(partitions);
    expect(Math.min(...counts)).toBeGreaterThan(30);
    expect(Math.max(...counts)).toBeLessThan(300);
  });
});

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
