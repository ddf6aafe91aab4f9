import { readdirSync, readFileSync } from "node:fs";
import type { Redis } from "ioredis";
import { describe, expect, it } from "vitest";
import { StoreMisconfigured } from "./errors.ts";
import { requireUsable, TRIALS } from "./requirements.ts";

describe("the check of the user's rights", () => {
  it("covers exactly the commands that scripts and calls use", () => {
    const used = new Set(["TIME"]);
    const rooms = new URL("..", import.meta.url);
    const files = readdirSync(rooms, { recursive: true, encoding: "utf8" });
    for (const file of files.filter((each) => /^(?!.*\.test\.).*\.(?:ts|lua)$/.test(each)))
      for (const [, name = ""] of readFileSync(new URL(file, rooms), "utf8").matchAll(
        /\b(?:call\('|run\("[\w-]+", ")(\w+)/g,
      ))
        used.add(name.toUpperCase());
    expect(TRIALS.map((trial) => trial.split(" ")[0]).sort()).toEqual([...used].sort());
  });
});

describe("the check of the Redis version", () => {
  const check = async (answer: string[] | Error) => {
    const redis = {
      call: async () => {
        if (answer instanceof Error) throw answer;
        return answer;
      },
      evalsha: async () => {
        throw Object.assign(new Error("NOSCRIPT No matching script"), { name: "ReplyError" });
      },
      eval: async () => [],
      scan: async () => ["0", []],
    };
    const failure = await requireUsable(redis as unknown as Redis, { isCluster: false, waits: false }).catch((e) => e);
    expect([undefined, StoreMisconfigured]).toContain(failure?.constructor);
    return (failure as Error | undefined)?.message;
  };
  const hello = (server: string, version: string) => ["server", server, "version", version, "proto", "2"];

  it.each([
    ["redis", "7.0.0"],
    ["redis", "7.4.1"],
    ["redis", "10.2.0"],
    ["valkey", "7.2.0"],
    ["valkey", "8.0.1"],
  ])("accepts %s %s", async (server, version) => {
    expect(await check(hello(server, version))).toBeUndefined();
  });

  it.each([
    ["redis", "6.2.14"],
    ["redis", "6.0.16"],
    ["valkey", "7.0.9"],
    ["redis", "?"],
  ])("refuses %s %s with an error that contains this version and the required version", async (server, version) => {
    expect(await check(hello(server, version))).toBe(
      `this is ${server} ${version}; the service needs Redis 7.0 or Valkey 7.2, or newer`,
    );
  });

  it("refuses a server without HELLO", async () => {
    expect(await check(new Error("ERR unknown command `HELLO`"))).toMatch(/older than 6.0.*needs Redis 7.0/);
  });
});
