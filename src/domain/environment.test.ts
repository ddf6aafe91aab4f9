import { describe, expect, it } from "vitest";
import { environmentPath, parseEnvironmentName } from "./environment.ts";

describe("environment names", () => {
  it.each([
    ["acme", { name: "acme", tag: undefined }, "acme/"],
    ["acme/Customer", { name: "acme", tag: "Customer" }, "acme/Customer"],
    ["acme/Testing", { name: "acme", tag: "Testing" }, "acme/Testing"],
    ["A.b_c-9", { name: "A.b_c-9", tag: undefined }, "A.b_c-9/"],
    ["x".repeat(64), { name: "x".repeat(64), tag: undefined }, `${"x".repeat(64)}/`],
  ] as const)("the name of an environment may be %s", (text, name, path) => {
    expect(parseEnvironmentName(text)).toEqual(name);
    expect(environmentPath(name)).toBe(path);
  });

  it.each([
    ...["", "/", "/Customer", "acme/", "acme/customer", "acme/CUSTOMER", "acme/Production", "acme/Customer/"],
    ...["acme/Customer/x", "acme /Customer", "acme\n", "acme/Customer\n", "ac{me}", "ümlaut", "x".repeat(65)],
    // The URL of the signing keys contains the name, and URL parsers remove the path segments `.` and `..`.
    ...[".", "..", "./Customer", "../Testing", ".acme"],
  ])("the name of an environment may not be %j", (text) => expect(parseEnvironmentName(text)).toBeUndefined());

  it("the name of an environment and its tag form a unique path", () => {
    const texts = ["a", "a/Customer", "a/Testing", "a.Customer", "aCustomer", "A"];
    const paths = texts.map((text) => environmentPath(parseEnvironmentName(text) ?? { name: "", tag: undefined }));
    expect(new Set(paths).size).toBe(texts.length);
  });
});
