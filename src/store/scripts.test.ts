import { readdirSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { RECORD } from "./audit/audit-trail.ts";
import type { Script } from "./redis/script.ts";

const folder = new URL(".", import.meta.url);
const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) => /^[^.]+\.ts$/.test(name));

/** The scripts that the files of the store export. */
async function scriptsOf(): Promise<Script[]> {
  const modules = await Promise.all(files.map((name) => import(new URL(name, folder).href)));
  return modules.flatMap((each) => Object.values(each)).filter((value): value is Script => isScript(value));
}

function isScript(value: unknown): boolean {
  return typeof value === "object" && value !== null && "isAlone" in value && "lua" in value;
}

it("of scripts, those that say that they touch one key alone name no other", async () => {
  const alone = (await scriptsOf()).filter(({ isAlone }) => isAlone);
  expect(alone.length).toBeGreaterThan(8);
  for (const { name, lua } of alone) {
    const keys = [...lua.matchAll(/call\('(\w+)', ([^,)]+)/g)].filter(([, command]) => command !== "PUBLISH");
    // The stream of an event that is written alone is its key.
    const own = name === RECORD.name ? ["key", "trail"] : ["key"];
    for (const [call, , key] of keys) expect(own, `${name}: ${call}`).toContain(key);
  }
});

it("no two scripts have one name, by which a connection knows them", () => {
  const text = files.map((name) => readFileSync(new URL(name, folder), "utf8")).join("");
  const names = [...text.matchAll(/Script\(\s*"(ug\w+)"/g)].map(([, name]) => name);
  expect(names.length).toBeGreaterThan(30);
  expect(new Set(names).size).toBe(names.length);
});

it("the answers by which a change is made are among those of its script", async () => {
  for (const { name, lua, made } of await scriptsOf())
    for (const answer of made) expect(lua, name).toContain(`'${answer}'`);
});
