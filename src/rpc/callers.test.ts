import { expect, it } from "vitest";
import type { Principal } from "../auth/api-tokens.ts";
import { callersOf } from "./access.ts";

const owners = new Map<string, Principal>([
  ["one", { environment: { name: "shop", tag: undefined }, id: "a", role: "read" } as never],
  ["two", { environment: { name: "shop", tag: undefined }, id: "b", role: "admin" } as never],
  ["three", { environment: { name: "shop", tag: "test" }, id: "a", role: "read" } as never],
  ["root", { environment: undefined, id: "c", role: "root" } as never],
]);
const callerOf = callersOf({ lastOwner: (token) => owners.get(token) }, (peer) => peer);
const callerWith = (token: string | undefined, address = "192.0.2.1") =>
  callerOf({ headers: token === undefined ? {} : { authorization: `Token ${token}` }, peerAddress: () => address });

it("puts all API tokens of an environment into one group of callers", () => {
  expect(callerWith("one").group).toBe(callerWith("two").group);
  expect(callerWith("one").name).not.toBe(callerWith("two").name);
  expect(callerWith("three").group).not.toBe(callerWith("one").group);
});

it("puts all addresses without a known API token into one group of callers", () => {
  const [first, second, none] = [callerWith("x"), callerWith("y", "192.0.2.2"), callerWith(undefined)];
  expect([second.group, none]).toEqual([first.group, first]);
  expect(second.name).not.toBe(first.name);
});

it("puts ADMIN_TOKEN into a separate group of callers", () => {
  const groups = ["one", "three", "root", undefined].map((token) => callerWith(token).group);
  expect(new Set(groups).size).toBe(4);
});
