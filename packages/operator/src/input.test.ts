import { describe, expect, it } from "vitest";
import { UpdateUserGroupRequestSchema } from "../../../gen/usergroup/v1/user_group_service_pb.ts";
import { fieldOf } from "./fields.ts";
import { formatField, parseField } from "./input.ts";

const mapping = fieldOf(UpdateUserGroupRequestSchema, "mapping");
const properties = fieldOf(UpdateUserGroupRequestSchema, "properties");

describe("maps", () => {
  it("a map is formatted as KEY=VALUE lines, and the lines are parsed to the same map", () => {
    const value = { sales: "warehouse=eu", billing: "pg" };
    const text = formatField(mapping, value);
    expect(text).toBe("sales=warehouse=eu\nbilling=pg");
    expect(parseField(mapping, `\n${text}\n \n`)).toEqual(value);
    expect(parseField(mapping, "")).toEqual({});
  });

  it.each<{ [key: string]: string }>([
    { "a=b": "c" },
    { sales: "warehouse\nbilling=pg" },
    { sales: " warehouse" },
    { " ": "" },
    { '{"a': '"}' },
  ])("a map is parsed to the same map after formatting, even if KEY=VALUE lines would be ambiguous: %j", (value) => {
    expect(parseField(mapping, formatField(mapping, value))).toEqual(value);
  });

  it.each([
    ['{"a": 1}', "value of a"],
    ['{"a=b": "c",}', "not valid JSON"],
    ["a=1\nsales", "Line 2"],
    ["=source", "Line 1"],
    ["a=1\n\na=2", "Line 3"],
  ])("an invalid map is rejected with an error that names the invalid line or value: %j", (text, words) => {
    expect(() => parseField(mapping, text)).toThrow(words);
  });
});

describe("objects", () => {
  it("an object is formatted as JSON, and the JSON is parsed to the same object", () => {
    const value = { plan: "gold", seats: 3, nested: { list: [1, null, "x"] } };
    expect(parseField(properties, formatField(properties, value))).toEqual(value);
    expect(parseField(properties, " \n")).toBeUndefined();
    expect(formatField(properties, undefined)).toBe("");
  });

  it.each(["{", "[1]", "null", '"text"', "{'a': 1}"])("a text that is not a JSON object is rejected: %s", (text) => {
    expect(() => parseField(properties, text)).toThrow("properties");
  });
});
