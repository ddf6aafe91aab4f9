import { readdirSync } from "node:fs";
import { expect, it } from "vitest";
import { RECORD } from "./audit/audit-trail.ts";
import type { Script } from "./redis/script.ts";

/** The scripts that the files of the store export. */
async function scriptsOf(): Promise<Script[]> {
  const folder = new URL(".", import.meta.url);
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) => /^[^.]+\.ts$/.test(name));
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
