import { describe, expect, it, vi } from "vitest";
import { HOUR_MS } from "../../../src/domain/durations.ts";
import type { Environment } from "../../../src/domain/environment.ts";
import { UserGroupNotFound } from "../../../src/domain/errors.ts";
import type { Page } from "../../../src/domain/page.ts";
import type { UserGroupRange } from "../../../src/domain/store.ts";
import { byId, type ContractContext, contents, fails, imported, newEnvironment, newGroup } from "./context.ts";

/**
 * Ids in the order of their UTF-8 bytes. JavaScript would sort these ids in a different order, because it compares
 * UTF-16 units.
 */
const ORDERED = [
  "A",
  "Z",
  "__proto__",
  "a",
  "a b",
  "ab",
  "a{b}",
  "b",
  "é",
  "éa",
  "日本",
  "\ue000x",
  "\ufffd",
  "𐀀",
  "👪",
];

export function groupListContract(context: ContractContext): void {
  describe("list", () => lists(context));
  describe("export", () => exports(context));
  describe("lookUp", () => lookUps(context));
}

export async function pagesOf<T>(size: number, read: (page: UserGroupRange) => Promise<Page<T>>, prefix = "") {
  const pages: (readonly T[])[] = [];
  let after: string | undefined = "";
  while (after !== undefined) {
    const { items, next }: Page<T> = await read({ after, size, prefix });
    expect(items.length).toBeLessThanOrEqual(size);
    pages.push(items);
    after = next;
  }
  return pages;
}

function lists({ store, admin, client, redis, many, withGroup }: ContractContext): void {
  const idsOf = async (environment: Environment, size: number, prefix = "") =>
    (await pagesOf(size, (range) => admin().list(environment, range), prefix)).flat().map((group) => group.providedId);

  it("contains every group once, in byte order of the ids", async () => {
    const environment = await newEnvironment();
    const shuffled = ORDERED.map((id) => newGroup(id, { name: `name of ${id}` })).reverse();
    await Promise.all(shuffled.map((group, worker) => store({ worker }).getOrCreate(environment, group)));
    for (const size of [1, 2, 5, 1000]) expect(await idsOf(environment, size)).toEqual(ORDERED);
    expect(await idsOf(environment, 2, "a")).toEqual(["a", "a b", "ab", "a{b}"]);
    expect(await idsOf(environment, 2, "é")).toEqual(["é", "éa"]);
    expect(await idsOf(environment, 1000, "👪")).toEqual(["👪"]);
    expect(await idsOf(environment, 2, "\ue000")).toEqual(["\ue000x"]);
    expect(await idsOf(environment, 2, "none")).toEqual([]);
    expect(await idsOf(await newEnvironment(), 10)).toEqual([]);
  });

  it("has full pages", async () => {
    const environment = await newEnvironment();
    const groups = Array.from({ length: many(90) }, (_, i) => newGroup(`group ${i}`));
    await Promise.all(groups.map((group) => store().getOrCreate(environment, group)));
    const pages = await pagesOf(many(30), (range) => admin().list(environment, range));
    expect(pages.map((page) => page.length)).toEqual([many(30), many(30), many(30)]);
  });

  it("a list can be limited to groups whose name contains a text, regardless of case", async () => {
    const environment = await newEnvironment();
    const count = many(2500);
    const groups = Array.from({ length: count }, (_, i) =>
      newGroup(`group ${String(i).padStart(5, "0")}`, { name: i % 50 === 7 ? `The ACME of ${i} é%` : `other ${i}` }),
    );
    await Promise.all(groups.map((group, worker) => store({ worker }).getOrCreate(environment, group)));
    const search = async (nameContains: string, size: number, prefix = "") => {
      const pages = await pagesOf(size, (range) => admin().list(environment, { ...range, nameContains }), prefix);
      for (const page of pages) expect(page.length).toBeLessThanOrEqual(size);
      return pages.flat().map(({ providedId }) => providedId);
    };
    const wanted = groups.filter(({ name }) => name.includes("ACME")).map(({ providedId }) => providedId);
    expect(wanted.length).toBeGreaterThan(5);
    for (const size of [1, 3, 1000]) expect(await search("acme OF", size)).toEqual(wanted);
    expect(await search("é%", 10)).toEqual(wanted);
    expect(await search("acme", 10, "group 000")).toEqual(wanted.filter((id) => id.startsWith("group 000")));
    expect(await search("of 57 ", 10)).toEqual(["group 00057"]);
    for (const none of ["nowhere", ".*", "%a"]) expect(await search(none, 10)).toEqual([]);
  });

  it("reads only the records of the requested page", async () => {
    const environment = await newEnvironment();
    const groups = Array.from({ length: many(500) }, (_, i) => newGroup(`group ${i}`));
    await Promise.all(groups.map((group) => store().getOrCreate(environment, group)));
    const run = vi.spyOn(client(), "run");
    const ask = vi.spyOn(client(), "ask");
    const { items } = await admin().list(environment, { after: "", size: 20, prefix: "" });
    const read = run.mock.calls.map(([operation, command]) => `${operation} by ${command}`);
    const requested = ask.mock.calls.map(([operation]) => operation);
    run.mockRestore();
    ask.mockRestore();
    expect(items).toHaveLength(20);
    expect(read).toEqual(Array(20).fill("list-user-groups by hmget"));
    expect(requested).toEqual(["list-user-group-ids"]);
  });

  it("returns the name, ids and times of each group, but no token, mapping or properties", async () => {
    const environment = await newEnvironment({ tag: "Customer" });
    const given = newGroup("a", { name: "", mapping: { s: "d" }, properties: { p: 1 } });
    const { group } = await store().getOrCreate(environment, given);
    const read = async () => (await admin({ worker: 1 }).list(environment, { after: "", size: 10, prefix: "" })).items;
    const { teamId, etag, createTime } = group;
    const listed = { teamId, etag, createTime, providedId: "a", name: "" };
    expect(await read()).toEqual([
      {
        ...listed,
        updateTime: createTime,
        tokenCreateTime: createTime,
        lastRotationTime: undefined,
        graceExpireTime: undefined,
        hasForeignToken: false,
      },
    ]);
    const rotated = await store().rotate(environment, byId("a", { graceMs: HOUR_MS }));
    const { updateTime, tokenCreateTime } = rotated;
    const [now] = await read();
    expect(now).toMatchObject({ etag: rotated.etag, updateTime, tokenCreateTime, lastRotationTime: tokenCreateTime });
    expect(Math.abs((now?.graceExpireTime ?? 0) - tokenCreateTime - HOUR_MS)).toBeLessThan(100);
    await admin().import(environment, [imported("b")], { snapshotTime: createTime });
    expect((await read())[1]).toMatchObject({ providedId: "b", hasForeignToken: true, lastRotationTime: undefined });
    expect(JSON.stringify(await read())).not.toContain(rotated.token);
  });

  it("changes nothing, and contains no groups of other environments", async () => {
    const { environment } = await withGroup();
    await store().getOrCreate(await newEnvironment({ name: environment.name, tag: "Testing" }), newGroup("b"));
    const before = await contents(redis(), environment);
    expect(await idsOf(environment, 10)).toEqual(["a"]);
    await fails(admin().lookUp(environment, "b"), UserGroupNotFound);
    expect((await admin().export(environment, { after: "", size: 9, prefix: "" })).items).toHaveLength(1);
    expect(await contents(redis(), environment)).toEqual(before);
  });

  it("contains each existing group once while groups are created and deleted", async () => {
    const environment = await newEnvironment();
    const ids = Array.from({ length: many(120) }, (_, i) => `stays ${i}`);
    await Promise.all(ids.map((id) => store().getOrCreate(environment, newGroup(id))));
    let passing = 0;
    const seen: string[] = [];
    const pages = await pagesOf(7, async (range) => {
      const id = `${passing % 2 === 0 ? "a" : "z"} passes ${passing++}`;
      await store({ worker: passing }).getOrCreate(environment, newGroup(id));
      const page = await admin().list(environment, range);
      if (passing % 3 > 0) await admin({ worker: passing }).delete(environment, id);
      return page;
    });
    for (const { providedId } of pages.flat()) seen.push(providedId);
    expect(new Set(seen).size).toBe(seen.length);
    expect(seen.filter((id) => id.startsWith("stays"))).toEqual([...ids].sort());
  });
}

function exports({ store, admin }: ContractContext): void {
  it("returns every group with all fields, including the token", async () => {
    const environment = await newEnvironment();
    const created = await Promise.all(
      ORDERED.map((id, i) =>
        store().getOrCreate(environment, newGroup(id, { mapping: { s: id }, ...(i % 2 && { properties: { i } }) })),
      ),
    );
    const token = "token-of-another-system";
    await admin().import(environment, [imported("~", { token })]);
    for (const size of [1, 4, 1000]) {
      const pages = await pagesOf(size, (range) => admin().export(environment, range));
      const all = pages.flat();
      expect(all.slice(0, 3)).toEqual(created.slice(0, 3).map(({ group }) => group));
      expect(all.map(({ providedId }) => providedId)).toEqual([...ORDERED.slice(0, 8), "~", ...ORDERED.slice(8)]);
      expect(all.find(({ providedId }) => providedId === "~")?.token).toBe(token);
    }
  });

  it("limits the size of a page in bytes, but returns at least one group", async () => {
    const environment = await newEnvironment();
    const properties = { p: "x".repeat(60_000) };
    const mapping = Object.fromEntries(Array.from({ length: 900 }, (_, i) => [`k${i}`, "日".repeat(800)]));
    const groups = Array.from({ length: 40 }, (_, i) => newGroup(`g${String(i).padStart(2, "0")}`, { properties }));
    await Promise.all(groups.map((group) => store().getOrCreate(environment, group)));
    // Together, these two groups are larger than a page.
    for (const id of ["g05", "g06"]) await store().update(environment, id, { mapping });
    const pages = await pagesOf(1000, (range) => admin().export(environment, range));
    expect(pages.flat().map(({ providedId }) => providedId)).toEqual(groups.map(({ providedId }) => providedId));
    expect(pages.length).toBeGreaterThan(4);
    expect(pages.length).toBeLessThan(12);
  });
}

function lookUps({ store, admin }: ContractContext): void {
  it("returns all fields except the token", async () => {
    const environment = await newEnvironment();
    const given = newGroup("a", { name: "A", mapping: { s: "d" }, properties: { p: 1 } });
    const { group } = await store().getOrCreate(environment, given);
    const { token, ...rest } = group;
    const first = { ...rest, lastRotationTime: undefined, graceExpireTime: undefined, hasForeignToken: false };
    expect(await admin({ worker: 1 }).lookUp(environment, "a")).toEqual(first);
    const rotated = await store().rotate(environment, byId("a", { graceMs: HOUR_MS }));
    const info = await admin().lookUp(environment, "a");
    expect(info).toMatchObject({ tokenCreateTime: rotated.tokenCreateTime, lastRotationTime: rotated.tokenCreateTime });
    expect(Math.abs((info.graceExpireTime ?? 0) - rotated.tokenCreateTime - HOUR_MS)).toBeLessThan(100);
    expect(JSON.stringify(info)).not.toContain(token);
    await store().rotate(environment, byId("a", { graceMs: 200 }));
    await expect
      .poll(async () => (await admin().lookUp(environment, "a")).graceExpireTime, { timeout: 20_000 })
      .toBe(undefined);
  });

  it("never creates a group", async () => {
    const environment = await newEnvironment();
    await fails(admin().lookUp(environment, "a"), UserGroupNotFound);
    expect((await store().getOrCreate(environment, newGroup("a"))).created).toBe(true);
  });
}
