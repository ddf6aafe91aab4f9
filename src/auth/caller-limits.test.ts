import { expect, it } from "vitest";
import { parseNetwork } from "../domain/client-address.ts";
import { ROOT } from "./authenticator.ts";
import { FailureLimits, TokenLimits } from "./caller-limits.ts";
import { RateLimits } from "./rate-limits.ts";

function open(max: number) {
  const keys: string[] = [];
  const counter = {
    add: (key: string) => {
      keys.push(key);
      return new Promise<never>(() => {});
    },
    forget: () => {},
  };
  return { keys, limits: new RateLimits({ limit: { max, windowSeconds: 60 }, counter }) };
}

const ENVIRONMENT = { name: "acme", tag: "Customer", partitions: 1, number: 1 } as const;
const bearer = (id: string, environment: { readonly name: string; readonly tag: "Customer" | "Testing" | undefined }) =>
  ({ id, displayName: "A", role: "manage", environment: { ...ENVIRONMENT, ...environment } }) as const;

it("API tokens are limited each for itself, by environment and id, and root is not", () => {
  const { keys, limits } = open(1);
  const tokens = new TokenLimits(limits);
  const one = bearer("a", { name: "acme", tag: "Customer" });
  expect(tokens.take(one)).toBeUndefined();
  expect(tokens.take({ ...one })).toMatchObject({ limit: { max: 1 } });
  expect(tokens.take(bearer("b", one.environment))).toBeUndefined();
  expect(tokens.take(bearer("a", { name: "acme", tag: "Testing" }))).toBeUndefined();
  expect(tokens.take(bearer("a", { name: "acme", tag: undefined }))).toBeUndefined();
  expect(keys).toEqual(["acme/Customer/a", "acme/Customer/b", "acme/Testing/a", "acme//a"]);
  for (let i = 0; i < 10; i++) expect(tokens.take(ROOT)).toBeUndefined();
  expect(keys).toHaveLength(4);
});

it("failures are limited by the address that a trusted proxy names, and a lookup is let through now and then", () => {
  const { keys, limits } = open(2);
  const proxies = [parseNetwork("10.0.0.0/8") ?? expect.fail("no network")];
  const failures = new FailureLimits({ limits, proxies });
  const origin = (client: string) => ({ peer: "10.0.0.1", forwardedFor: client });
  expect(failures.mayLookUp(origin("2001:db8::1"))).toBe(true);
  expect(failures.fail(origin("2001:db8::1"))).toBeUndefined();
  expect(failures.fail(origin("2001:db8::2"))).toBeUndefined();
  expect(failures.fail(origin("2001:db8::3"))).toMatchObject({ limit: { max: 2 } });
  expect(failures.fail(origin("2001:db8:0:1::1"))).toBeUndefined();
  expect(keys).toEqual(["2001:db8:0:0::/64", "2001:db8:0:1::/64"]);
  const lookups = Array.from({ length: 20 }, () => failures.mayLookUp(origin("2001:db8::4")));
  expect(lookups[0]).toBe(true);
  expect(lookups.filter(Boolean).length).toBeLessThan(20);
  expect(failures.mayLookUp(origin("192.0.2.1"))).toBe(true);
});
