import { expect, it } from "vitest";
import { commandText } from "./command-text.ts";

it.each([
  [{ command: "env list" }, "ugs env list"],
  [{ command: "group get", args: ["acme"], env: "acme/Customer" }, "ugs group get --env acme/Customer acme"],
  [{ command: "group list", options: { prefix: "a b", limit: undefined } }, "ugs group list --prefix 'a b'"],
  [{ command: "env delete", options: { force: true }, args: ["a"] }, "ugs env delete --force a"],
  [
    { command: "group create", options: { mapping: ["a=1", "b=2 c"] }, args: ["acme"] },
    "ugs group create --mapping=a=1 '--mapping=b=2 c' acme",
  ],
  [{ command: "group get", args: ["it's a group; rm -rf ~"] }, `ugs group get 'it'\\''s a group; rm -rf ~'`],
  [{ command: "group get", args: ["-x"], env: "a" }, "ugs group get --env a -- -x"],
  [{ command: "group get", args: ["é"] }, "ugs group get 'é'"],
])("commandText quotes and orders the words of a command for a shell: %j", (props, text) => {
  expect(commandText(props)).toBe(text);
});
