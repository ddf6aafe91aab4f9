import { describe, expect, it } from "vitest";
import { mappingOptions, parseMapping, parseProperties, textsOf } from "./group-fields.ts";

describe("a mapping", () => {
  it("is read as it is written", () => {
    const mapping = { sales: "warehouse=eu", billing: "pg" };
    const { mapping: text } = textsOf({ name: "", mapping });
    expect(text).toBe("sales=warehouse=eu\nbilling=pg");
    expect(parseMapping(`\n${text}\n \n`)).toEqual(mapping);
  });

  it.each<{ [schema: string]: string }>([
    { "a=b": "c" },
    { sales: "warehouse\nbilling=pg" },
    { sales: " warehouse" },
    { " ": "" },
    { '{"a': '"}' },
  ])("is read as it is, whatever is in it: %j", (mapping) => {
    expect(parseMapping(textsOf({ name: "", mapping }).mapping)).toEqual(mapping);
  });

  it.each([
    ['{"a": 1}', "source of a"],
    ['{"a=b": "c",}', "not valid JSON"],
    ["a=1\nsales", "Line 2"],
    ["=source", "Line 1"],
    ["a=1\n\na=2", "Line 3 of the mapping repeats"],
  ])("is refused with its line at fault: %j", (text, words) => {
    expect(() => parseMapping(text)).toThrow(words);
  });
});

it("is told to ugs as far as it can be", () => {
  expect(mappingOptions('{"a": "b\\nc"}\n')).toEqual(["--mapping", "a=b\nc"]);
  for (const text of ['{"a=b": "c"}', "sales"]) expect(mappingOptions(text)).toEqual(["--mapping", "SCHEMA=SOURCE"]);
});

describe("properties", () => {
  it("are read as they are written", () => {
    const properties = { plan: "gold", seats: 3, nested: { list: [1, null, "x"] } };
    expect(parseProperties(textsOf({ name: "", mapping: {}, properties }).properties)).toEqual(properties);
    expect(parseProperties(" \n")).toBeUndefined();
    expect(textsOf({ name: "", mapping: {} }).properties).toBe("");
  });

  it.each(["{", "[1]", "null", '"text"', "{'a': 1}"])("that are no JSON object are refused: %s", (text) => {
    expect(() => parseProperties(text)).toThrow(/^The properties are/);
  });
});
