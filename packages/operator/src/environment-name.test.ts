import { expect, it } from "vitest";
import { formatEnvironmentName, parseEnvironmentName } from "./environment-name.ts";

it.each(["acme", "acme/Customer", "acme/Testing"])("parses the environment name %s, and formats it again", (text) => {
  const name = parseEnvironmentName(text);
  expect(name && formatEnvironmentName(name)).toBe(text);
});

it.each(["", "/Customer", "acme/", "acme/Other", "acme/Customer/a", "acme/constructor", "acme/__proto__"])(
  "parseEnvironmentName rejects %j",
  (text) => {
    expect(parseEnvironmentName(text)).toBeUndefined();
  },
);
