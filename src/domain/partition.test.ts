import { describe, expect, it } from "vitest";
import { DEFAULT_PARTITIONS, type Environment, MAX_PARTITIONS } from "./environment.ts";
import { partitionOf } from "./partition.ts";

function environment(partitions: number): Environment {
  return { name: "e", tag: undefined, partitions, number: 1 };
}

describe("the partition of an id", () => {
  // The check value of CRC-16/XMODEM, and slots that Redis' own documentation and CLUSTER KEYSLOT give.
  it.each([
    ["123456789", 0x31c3],
    ["somekey", 11058],
    ["foo", 12182],
    ["é", 10180],
    ["👪", 13375],
  ])("of %s is what Redis Cluster's slots are counted by", (id, crc) => {
    expect(partitionOf(environment(16_384), id)).toBe(crc % 16_384);
    expect(partitionOf(environment(64), id)).toBe(crc % 64);
  });

  it("is 0 where there is one partition", () => {
    for (const id of ["a", "b", "__proto__", "👪"]) expect(partitionOf(environment(1), id)).toBe(0);
  });

  it.each([DEFAULT_PARTITIONS, MAX_PARTITIONS])("spreads ids evenly over %i", (partitions) => {
    const counts = new Array<number>(partitions).fill(0);
    const ids = partitions * 100;
    for (let i = 0; i < ids; i++) {
      const partition = partitionOf(environment(partitions), `customer-${i}`);
      counts[partition] = (counts[partition] ?? Number.NaN) + 1;
    }
    expect(counts).toHaveLength(partitions);
    expect(Math.min(...counts)).toBeGreaterThan(30);
    expect(Math.max(...counts)).toBeLessThan(300);
  });
});
