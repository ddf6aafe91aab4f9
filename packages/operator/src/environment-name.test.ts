import { expect, it } from "vitest";
import { formatEnvironmentName, parseEnvironmentName } from "./environment-name.ts";

it.each(["acme", "acme/Customer", "acme/Testing"])("reads %s and writes it in the same way", (text) => {
  const name = parseEnvironmentName(text);
  expect(name && formatEnvironmentName(name)).toBe(text);
});

it.each(["", "/Customer", "acme/", "acme/Other", "acme/Customer/a", "acme/constructor", "acme/__proto__"])(
  "refuses %s",
  (text) => {
    expect(parseEnvironmentName(text)).toBeUndefined();
  },
);
