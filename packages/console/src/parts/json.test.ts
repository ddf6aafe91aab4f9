import { expect, it } from "vitest";
import { jsonTokens } from "./json.tsx";

it("jsonTokens distinguishes keys, strings and other values, and keeps every character", () => {
  const json = JSON.stringify({ 'a "key"': "te\\xt: 1", n: -1.5e3, list: [true, null, "x"] }, null, 2);
  const tokens = jsonTokens(json);
  expect(tokens.map(({ text }) => text).join("")).toBe(json);
  const of = (kind: string) => tokens.filter((token) => token.kind === kind).map(({ text }) => text);
  expect(of("key")).toEqual(['"a \\"key\\""', '"n"', '"list"']);
  expect(of("text")).toEqual(['"te\\\\xt: 1"', '"x"']);
  expect(of("value")).toEqual(["-1500", "true", "null"]);
  expect(jsonTokens("sales=lake")).toEqual([{ text: "sales=lake", kind: undefined }]);
});
