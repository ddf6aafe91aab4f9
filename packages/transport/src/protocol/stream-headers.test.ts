import { describe, expect, it } from "vitest";
import type { HeaderRecord } from "../http-types.ts";
import { prepareStreamHeaders } from "./stream-headers.ts";

const GRPC = { "content-type": "application/grpc" };
const CONNECT = { "content-type": "application/connect+proto" };
const DAY_MS = 86_400_000;

function prepared(headers: HeaderRecord, lifetimeMs = Infinity): HeaderRecord {
  const copy = { ...headers };
  prepareStreamHeaders(copy, lifetimeMs);
  return copy;
}

const grpc = (timeout: string | undefined, lifetimeMs?: number) =>
  prepared({ ...GRPC, "grpc-timeout": timeout }, lifetimeMs)["grpc-timeout"];
const connect = (timeout: string | undefined, lifetimeMs?: number) =>
  prepared({ ...CONNECT, "connect-timeout-ms": timeout }, lifetimeMs)["connect-timeout-ms"];

describe("deadlines for Connect's handler", () => {
  it.each(["99999999H", "600H", "99999999M", "99999999S"])(
    "a deadline of %s is reduced to the longest timer",
    (text) => {
      expect(grpc(text)).toBe("2147483S");
    },
  );

  it("a deadline of Connect with ten digits is reduced to the longest timer", () => {
    expect([connect("9999999999"), connect("2147483648")]).toEqual(["2147483647", "2147483647"]);
  });

  it.each(["596H", "2147483S", "99999999m", "99999999n", "0S"])("a deadline of %s is not changed", (text) => {
    expect(grpc(text)).toBe(text);
  });

  it.each(["2147483647", "0"])("a deadline of %s milliseconds is not changed", (text) => {
    expect(connect(text)).toBe(text);
  });

  it.each(["999999999H", "-1H", "x", ""])("a malformed deadline such as %j is left to Connect", (text) => {
    expect([grpc(text), grpc(text, 1000), connect(text), connect(text, 1000)]).toEqual(Array(4).fill(text));
  });

  it("a deadline is limited to the lifetime of streams, and defaults to this lifetime", () => {
    expect([grpc(undefined, 1000), grpc("2S", 1000), grpc("1S", 1000), grpc("5m", 1000)]).toEqual([
      "1000m",
      "1000m",
      "1S",
      "5m",
    ]);
    expect([connect(undefined, 1000), connect("1001", 1000), connect("7", 1000)]).toEqual(["1000", "1000", "7"]);
    expect([grpc(undefined), connect(undefined)]).toEqual([undefined, undefined]);
  });

  it("a deadline is well-formed for any lifetime", () => {
    expect([grpc(undefined, DAY_MS), grpc(undefined, 2 * DAY_MS)]).toEqual(["86400000m", "172800S"]);
    expect([grpc(undefined, 30 * DAY_MS), connect(undefined, 30 * DAY_MS)]).toEqual(["2147483S", "2147483647"]);
  });
});

it("truncates headers that Connect repeats in its error", () => {
  const long = "x".repeat(30_000);
  expect(prepared({ ...GRPC, "grpc-encoding": long, "x-own": long })).toEqual({
    ...GRPC,
    "grpc-encoding": "x".repeat(64),
    "x-own": long,
  });
});
