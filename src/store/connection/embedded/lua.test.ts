import fengari from "fengari";
import { expect, it } from "vitest";
import { luaCompiler } from "./lua.ts";

const compile = luaCompiler(fengari, async (name, args) => {
  if (name === "refuse") throw new Error("ERR refused");
  const answers: Record<string, unknown> = { null: null, number: 7, flat: ["a", null, "ü"], hash: { f: "v", g: "w" } };
  return name in answers ? answers[name] : args;
});

const run = (text: string, ...args: string[]) => compile(text)(["the key"], args);

it.each<[text: string, expected: unknown]>([
  ["return {KEYS[1], ARGV[2], #KEYS, #ARGV}", ["the key", "b", 1, 2]],
  ["return {'one', 2, false, true, {'in', 'it'}, nil, 'unseen'}", ["one", 2, null, 1, ["in", "it"]]],
  ["return 'text'", "text"],
  ["return", null],
  ["return redis.call('ECHO', 'ä', 1, 2.0, ARGV[1])", ["ä", "1", "2", "a"]],
  ["return {redis.call('NULL') == false, redis.call('NUMBER') + 1}", [1, 8]],
  ["local list = redis.call('FLAT') return {#list, list[1], list[2] == false, list[3]}", [3, "a", 1, "ü"]],
  ["return redis.call('HASH')", ["f", "v", "g", "w"]],
  ["local answer = redis.pcall('REFUSE') return {type(answer), answer.err}", ["table", "ERR refused"]],
  ["#!lua flags=allow-oom\nreturn 'reported'", "reported"],
])("the arguments and the result of a script are converted as in Redis: %s", async (text, expected) => {
  expect(await run(text, "a", "b")).toEqual(expected);
});

it.each([
  ["return redis.call('REFUSE')", "ERR refused"],
  ["error('by itself')", "by itself"],
  ["return 1 + nil", "arithmetic on a nil value"],
])("a failed script does not affect later calls: %s", async (text, message) => {
  const [before, script] = ["return ARGV[1]", text].map((each) => compile(each));
  for (let i = 0; i < 2; i++) {
    await expect(script?.(["k"], [])).rejects.toMatchObject({
      name: "ReplyError",
      message: expect.stringContaining(message),
    });
    expect(await before?.(["k"], ["x"])).toBe("x");
  }
});

it("a text that is not Lua is rejected", () => {
  expect(() => compile("return {")).toThrow("a script failed");
});

it("a call leaves no global variables for later calls or other scripts", async () => {
  const count = compile("calls = (calls or 0) + 1 return calls");
  expect(await Promise.all([count(["k"], []), count(["k"], [])])).toEqual([1, 1]);
  expect(await count(["k"], [])).toBe(1);
  expect(await run("return type(calls)")).toBe("nil");
});
