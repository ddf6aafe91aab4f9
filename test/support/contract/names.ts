import { describe, expect, it } from "vitest";
import { TokenNotFound, UserGroupNotFound } from "../../../src/domain/errors.ts";
import type { JsonObject } from "../../../src/domain/user-group.ts";
import { byId, byToken, type ContractContext, contents, fails, newEnvironment, newGroup } from "./context.ts";

const ODD_IDS = [
  "__proto__",
  "constructor",
  "toString",
  "hasOwnProperty",
  "👪 família",
  "x".repeat(256),
  "👪".repeat(128),
  " ",
  " a ",
  "a",
  "A",
  "é",
  "e\u0301",
  "{}",
  "{a}",
  "}{",
  "a:b",
  "group:a",
  "*",
  "[a]?",
  "a\\b'\"",
  "0",
  "-1",
  "1e400",
];

/** Tests that unusual ids, keys and environment names do not collide in the store. */
export function namesContract(context: ContractContext): void {
  describe("unusual ids", () => oddIds(context));
  describe("environments", () => isolation(context));
}

function oddIds({ store, admin }: ContractContext): void {
  it("unusual ids can be used in every call", async () => {
    const environment = await newEnvironment();
    const tokens = new Map<string, string>();
    for (const id of ODD_IDS) {
      const { group, created } = await store().getOrCreate(environment, newGroup(id));
      expect({ id, created }).toEqual({ id, created: true });
      tokens.set(id, group.token);
    }
    for (const id of ODD_IDS) {
      await store().update(environment, id, { name: `name of ${id}` });
      const first = await store().rotate(environment, byToken(tokens.get(id) ?? "", { graceMs: 60_000 }));
      const second = await store().rotate(environment, byId(id));
      expect([first.providedId, second.providedId]).toEqual([id, id]);
      tokens.set(id, second.token);
    }
    for (const id of ODD_IDS) {
      const viewer = await store().resolve(environment, tokens.get(id) ?? "");
      expect(viewer).toMatchObject({ providedId: id, name: `name of ${id}` });
      expect((await store().getOrCreate(environment, newGroup(id))).created).toBe(false);
    }
    const { items } = await admin().list(environment, { after: "", size: 1000, prefix: "" });
    expect(items.map(({ providedId }) => providedId).sort()).toEqual([...ODD_IDS].sort());
  });

  it("unusual ids can also be keys and values in mappings and properties", async () => {
    const environment = await newEnvironment();
    const odd = JSON.stringify(Object.fromEntries(ODD_IDS.map((id) => [id, id])));
    const properties = JSON.parse(`{"__proto__":${odd},"n":[1e308,-0,0.1,null,true,""]}`) as JsonObject;
    const mapping = JSON.parse(odd) as Record<string, string>;
    const { group } = await store().getOrCreate(environment, newGroup("a", { mapping, properties }));
    const again = await store({ worker: 1 }).getOrCreate(environment, newGroup("a"));
    const viewer = await store().resolve(environment, group.token);
    for (const seen of [group, again.group, viewer]) {
      expect(JSON.stringify(seen.mapping)).toBe(odd);
      expect(JSON.stringify(seen.properties)).toBe(JSON.stringify(properties));
    }
  });
}

function isolation({ store, redis }: ContractContext): void {
  it("environments can contain groups with the same id, even if only the tags of the environments differ", async () => {
    const { name } = await newEnvironment();
    const environments = [
      await newEnvironment({ name }),
      await newEnvironment({ name, tag: "Customer" }),
      await newEnvironment({ name, tag: "Testing" }),
    ];
    const groups = [];
    for (const environment of environments) {
      const { group, created } = await store().getOrCreate(environment, newGroup("a", { name: environment.tag ?? "" }));
      expect(created).toBe(true);
      groups.push(group);
    }
    expect(new Set(groups.map(({ token }) => token)).size).toBe(3);
    expect(new Set(groups.map(({ teamId }) => teamId)).size).toBe(3);
    for (const [i, environment] of environments.entries()) {
      for (const [j, group] of groups.entries()) {
        if (i === j) expect((await store().resolve(environment, group.token)).name).toBe(group.name);
        else await fails(store().resolve(environment, group.token), TokenNotFound);
      }
    }
  });

  it("environments do not accept ids and tokens of groups in other environments", async () => {
    const { name } = await newEnvironment();
    const home = await newEnvironment({ name, tag: "Customer" });
    const { group } = await store().getOrCreate(home, newGroup("a"));
    const inGrace = await store().rotate(home, byToken(group.token, { graceMs: 60_000, requestId: "r" }));
    const before = await contents(redis(), home);
    for (const other of [
      await newEnvironment({ name, tag: "Testing" }),
      await newEnvironment({ name }),
      await newEnvironment(),
    ]) {
      await fails(store().update(other, "a", { name: "x" }), UserGroupNotFound);
      await fails(store().rotate(other, byId("a")), UserGroupNotFound);
      for (const { token } of [group, inGrace]) {
        await fails(store().rotate(other, byToken(token)), TokenNotFound);
        await fails(store().resolve(other, token), TokenNotFound);
      }
      await fails(store().rotate(other, byToken(group.token, { graceMs: 60_000, requestId: "r" })), TokenNotFound);
    }
    expect(await contents(redis(), home)).toEqual(before);
  });
}
