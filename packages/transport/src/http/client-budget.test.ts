import { waitFor } from "@user-group-service/testing/wait";
import { describe, expect, it } from "vitest";
import { ClientBudget, UNIT_BYTES } from "./client-budget.ts";

/**
 * Creates a budget. When a resource is evicted, its name is added to `evicted`. If the reason is a timeout, the entry
 * ends with `late`.
 */
function open(max: number, isIdle?: (name: string) => boolean) {
  const budget = new ClientBudget(max);
  const evicted: string[] = [];
  const over = new Set<string>();
  const charge = (client: string | undefined, name: string, options: { bytes?: number; timeoutMs?: number } = {}) =>
    budget.charge(
      client,
      {
        evict: (reason) => void evicted.push(reason === "timeout" ? `${name} late` : name),
        ...(isIdle && { isIdle: () => isIdle(name) }),
        isOver: () => over.has(name),
      },
      options,
    );
  const fill = (client: string | undefined, times: number) =>
    Array.from({ length: times }, (_, i) => charge(client, `${client}${i}`));
  return { budget, evicted, over, charge, fill };
}

describe("ClientBudget", () => {
  it("evicts the oldest resources of the largest client until a second client has the same number of resources", () => {
    const { evicted, charge, fill } = open(10);
    fill("a", 10);
    const admitted = ["b", "b", "b", "b", "b", "b", "c"].map(
      (client, i) => charge(client, `${client}${i}`) !== undefined,
    );
    // The sixth resource of client b is refused, because client b would then have as many resources as client a.
    expect(admitted).toEqual([true, true, true, true, true, false, true]);
    expect(evicted).toHaveLength(6);
    expect(evicted.slice(0, 5)).toEqual(["a0", "a1", "a2", "a3", "a4"]);
  });

  it("refuses a resource that would make its client the largest, and evicts nothing from smaller clients", () => {
    const { evicted, charge, fill } = open(10);
    fill("a", 6);
    fill("b", 4);
    for (let i = 0; i < 100; i++) expect(charge("a", "more")).toBeUndefined();
    expect(evicted).toEqual([]);
    // If two clients with equal resources evicted each other's resources, the evictions would never end.
    expect(charge("b", "b4")).toBeDefined();
    expect(evicted).toEqual(["a0"]);
    expect([charge("b", "b5"), charge("a", "a6")]).toEqual([undefined, undefined]);
  });

  it("evicts idle resources first, and checks at most 32 resources in a search", () => {
    const idle = new Set<string>();
    const { evicted, charge, fill } = open(100, (name) => idle.has(name));
    fill("a", 100);
    idle.add("a7").add("a9");
    expect([charge("b", "b0"), charge("b", "b1")]).not.toContain(undefined);
    expect(evicted).toEqual(["a7", "a9"]);
    // All resources of client a are busy, so its first resource is evicted. The search for an idle resource has moved
    // the checked resources to the end.
    charge("b", "b2");
    expect(evicted).toHaveLength(3);
    idle.add("a99");
    const before = evicted.length;
    for (let i = 3; i < 9; i++) charge("b", `b${i}`);
    expect(evicted.slice(before)).toContain("a99");
  });

  it("evicts idle resources of a client for a new resource of the same client", () => {
    const idle = new Set<string>();
    const { evicted, charge, fill } = open(4, (name) => idle.has(name));
    fill("a", 4);
    expect(charge("a", "more")).toBeUndefined();
    idle.add("a2");
    expect(charge("a", "more")).toBeDefined();
    expect(evicted).toEqual(["a2"]);
  });

  it("evicts a resource of a proxy only if the resource is idle and the proxy itself needs room", () => {
    const idle = new Set<string>();
    const { evicted, charge, fill } = open(10, (name) => idle.has(name));
    fill(undefined, 8);
    fill("a", 2);
    expect(charge("b", "b0")).toBeDefined();
    expect(evicted).toEqual(["a0"]);
    expect(charge("a", "a2")).toBeUndefined();
    expect([charge(undefined, "p8"), charge(undefined, "p9"), charge(undefined, "p10")].indexOf(undefined)).toBe(2);
    expect(evicted.slice(1).sort()).toEqual(["a1", "b0"]);
    expect(charge("c", "c0")).toBeUndefined();
    idle.add("p9");
    expect(charge(undefined, "p11")).toBeDefined();
    expect(evicted.at(-1)).toBe("p9");
  });

  it("counts bytes, and evicts a resource of the largest client when a resource grows beyond the budget", () => {
    const { evicted, charge } = open(100);
    const large = charge("a", "large", { bytes: 60 * UNIT_BYTES });
    const small = charge("b", "small", { bytes: 10 * UNIT_BYTES });
    if (!large || !small) return expect.unreachable();
    small.resize(40 * UNIT_BYTES);
    expect(evicted).toEqual([]);
    small.resize(50 * UNIT_BYTES);
    expect(evicted).toEqual(["large"]);
    const other = charge("a", "other", { bytes: 20 * UNIT_BYTES });
    if (!other) return expect.unreachable();
    small.resize(90 * UNIT_BYTES);
    expect(evicted).toEqual(["large", "small"]);
    // A released charge does not count, and cannot be released again.
    expect([small.release(), other.release(), other.release()]).toEqual([false, true, false]);
    other.resize(1000 * UNIT_BYTES);
    expect(charge("c", "all", { bytes: 100 * UNIT_BYTES })).toBeDefined();
    expect(charge("d", "too large", { bytes: 101 * UNIT_BYTES })).toBeUndefined();
    expect(evicted).toEqual(["large", "small"]);
  });

  it("evicts a resource at its timeout, and releases a finished resource without eviction", async () => {
    const { evicted, over, charge } = open(4);
    charge("a", "long", { timeoutMs: 60_000 });
    charge("a", "short", { timeoutMs: 100 });
    charge("b", "endless");
    charge("b", "over", { timeoutMs: 60_000 });
    expect(charge("b", "more")).toBeUndefined();
    over.add("over");
    await waitFor("the short resource is evicted", () => evicted.length > 0);
    expect(evicted).toEqual(["short late"]);
    expect([charge("b", "more"), charge("c", "more")]).not.toContain(undefined);
    expect(evicted).toEqual(["short late"]);
  });

  it("does not evict a finished resource", () => {
    const { evicted, over, charge, fill } = open(4);
    fill("a", 4);
    over.add("a0").add("a1");
    for (const name of ["b0", "b1"]) expect(charge("b", name)).toBeDefined();
    expect(evicted).toEqual([]);
    expect(charge("c", "c0")).toBeDefined();
    expect(evicted).toEqual(["a2"]);
  });

  it("takes constant time for any number of clients", () => {
    const { evicted, charge } = open(20_000);
    for (let i = 0; i < 20_000; i++) charge(`client ${i}`, "only");
    const before = process.cpuUsage();
    let admitted = 0;
    // Each client has one resource. A newcomer would also have one resource, so it would be one of the largest clients.
    // The budget therefore refuses the newcomer.
    for (let i = 0; i < 50_000; i++) if (charge(`newcomer ${i}`, "only")) admitted++;
    expect([admitted, evicted]).toEqual([0, []]);
    // This time limit need not be tight: if each charge searched all clients, the test would take minutes.
    expect(process.cpuUsage(before).user / 1000).toBeLessThan(5000);
  });
});
