import { readdirSync, readFileSync } from "node:fs";
import { parse } from "luaparse";
import { expect, it } from "vitest";
import type { Script } from "./connection/script.ts";

const folder = new URL(".", import.meta.url);
const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) => /^[^.]+\.ts$/.test(name));
const texts = readdirSync(new URL("scripts/", folder)).filter((name) => name.endsWith(".lua"));

/** The scripts that the files of the store export. */
const scripts = (await Promise.all(files.map((name) => import(new URL(name, folder).href)))).flatMap((each) =>
  Object.values(each).filter((value): value is Script => isScript(value)),
);

function isScript(value: unknown): boolean {
  return typeof value === "object" && value !== null && "singleKey" in value && "lua" in value;
}

/** What Redis gives to scripts, of what they use. */
const GLOBALS = ["KEYS", "ARGV", "redis", "math", "string", "table", "tonumber", "type", "ipairs", "unpack"];

it("every file of a script is used, and parses as Lua 5.1 without a global of its own", () => {
  expect(scripts.length).toBeGreaterThan(25);
  for (const name of texts) {
    const text = readFileSync(new URL(`scripts/${name}`, folder), "utf8");
    const last = text.trim().split("\n").at(-1) ?? "";
    expect(
      scripts.some(({ lua }) => lua.includes(last) && lua.includes(text.trim().split("\n")[1] ?? "")),
      name,
    ).toBe(true);
  }
  for (const { name, lua } of scripts) {
    const { globals = [] } = parse(lua.replace(/^#!.*/, ""), { luaVersion: "5.1", scope: true }) as unknown as {
      globals?: readonly { readonly name: string }[];
    };
    expect(
      globals.map((each) => each.name).filter((each) => !GLOBALS.includes(each)),
      name,
    ).toEqual([]);
  }
});

it("no two scripts have one name, by which a connection knows them", () => {
  const names = scripts.map(({ name }) => name);
  expect(new Set(names).size).toBe(new Set(scripts).size);
});

it("of scripts, those that say that they touch one key alone name no other", () => {
  const single = scripts.filter(({ singleKey }) => singleKey);
  expect(single.length).toBeGreaterThan(8);
  for (const { name, lua, keys } of single) {
    expect(keys).toHaveLength(1);
    for (const [call, , key] of lua.matchAll(/call\('(\w+)', ([^,)]+)/g)) expect(key, `${name}: ${call}`).toBe(keys[0]);
  }
});

it("the answers by which a change is made are among those of its script", () => {
  for (const { name, lua, made } of scripts) for (const answer of made) expect(lua, name).toContain(`'${answer}'`);
});

it("changes are refused when the memory of Redis is full, but for revocations and deletions", () => {
  for (const { name, lua, isChange } of scripts) {
    if (!isChange) continue;
    const ends = /revoke|delete|deletion|end-sessions|clear|remove|set-signing-keys/.test(name);
    expect(lua.startsWith(ends ? "#!lua flags=allow-oom\n" : "#!lua\n"), name).toBe(true);
  }
});
