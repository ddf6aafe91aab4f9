import { readdirSync, readFileSync } from "node:fs";
import { parse } from "luaparse";
import { expect, it } from "vitest";
import { PROBE_CHANGE } from "./connection/client.ts";
import type { Script } from "./connection/script.ts";
import { KEYS, type KeyArgs, type KeyName } from "./keys.ts";
import * as table from "./scripts.ts";

const folder = new URL("scripts/", import.meta.url);
const files = readdirSync(folder).filter((name) => name.endsWith(".lua"));

const scripts: [name: string, script: Script][] = Object.entries({ ...table, PROBE_CHANGE });

const GLOBALS = ["KEYS", "ARGV", "redis", "math", "string", "table", "tonumber", "type", "ipairs", "pairs", "unpack"];

const singleKey = scripts.filter(([, script]) => script.singleKey);

it("these tests cover more than 25 scripts, including more than 8 scripts with a single key", () => {
  expect(scripts.length).toBeGreaterThan(25);
  expect(singleKey.length).toBeGreaterThan(8);
});

it.each(files)("scripts.ts uses the file scripts/%s", (file) => {
  const lines = readFileSync(new URL(file, folder), "utf8").trim().split("\n");
  const [first = "", last = ""] = [lines[0], lines.at(-1)];
  expect(scripts.filter(([, { lua }]) => lua.includes(first) && lua.includes(last))).not.toEqual([]);
});

it.each(scripts)("%s parses as Lua 5.1 and sets no global variable", (_, { lua }) => {
  const { globals = [] } = parse(lua.replace(/^#!.*/, ""), { luaVersion: "5.1", scope: true }) as unknown as {
    globals?: readonly { readonly name: string }[];
  };
  expect(globals.map((each) => each.name).filter((each) => !GLOBALS.includes(each))).toEqual([]);
});

it.each(singleKey)("%s uses only its one key", (name, { lua, keys }) => {
  expect(keys).toHaveLength(1);
  for (const [call, , key] of lua.matchAll(/call\('(\w+)', ([^,)]+)/g)) {
    // For `LIST_IDS`, `contains` is empty, so the script does not read the keys of groups.
    if (name !== "LIST_IDS" || key !== "groups .. id") expect(key, call).toBe(keys[0]);
  }
});

it.each(scripts.filter(([, { isChange }]) => isChange))(
  "%s can run when Redis' memory is full if and only if it revokes, suspends or deletes",
  (name, { lua }) => {
    const ends = /REVOKE|SUSPEND|DELETE|DELETION|END_SESSIONS|CLEAR|REMOVE|SET_SIGNING_KEYS/.test(name);
    expect(lua.startsWith(ends ? "#!lua flags=allow-oom\n" : "#!lua\n")).toBe(true);
  },
);

const withKeys = scripts.filter(([, { keys }]) => keys.includes("environment") && keys.every((key) => key in KEYS));

it.each(withKeys.filter(([, { isChange }]) => isChange))(
  "if a key of %s contains an id or a digest, the script has this id or digest as an argument",
  (_, { keys, args }) => {
    for (const key of keys) {
      const of = KEYS[key as KeyName](1, { id: "1", digest: "2", currentDigest: "3", requestDigest: "4" } as KeyArgs);
      const parts = of.split(":").at(-1) ?? "";
      for (const [name, value] of [
        ["id", "1"],
        ["digest", "2"],
        ["requestDigest", "4"],
      ] as const)
        if (parts === value) expect(args).toContain(name);
    }
  },
);
