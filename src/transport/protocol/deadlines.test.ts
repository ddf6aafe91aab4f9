import { describe, expect, it } from "vitest";
import type { HeaderRecord } from "../exchange.ts";
import { capDeadline } from "./deadlines.ts";

function capped(headers: HeaderRecord): HeaderRecord {
  capDeadline(headers);
  return headers;
}

describe("a deadline for Connect's adapter", () => {
  it.each(["99999999H", "600H", "99999999M", "99999999S"])("of %s is brought within a timer's reach", (text) => {
    expect(capped({ "grpc-timeout": text })).toEqual({ "grpc-timeout": "596H" });
  });

  it("of ten digits of milliseconds is brought within a timer's reach", () => {
    expect(capped({ "connect-timeout-ms": "9999999999" })).toEqual({ "connect-timeout-ms": "2145600000" });
    expect(capped({ "connect-timeout-ms": "2147483648" })).toEqual({ "connect-timeout-ms": "2145600000" });
  });

  it.each(["596H", "2147483S", "99999999m", "99999999n", "0S", "999999999H", "-1H", "x", ""])("of %j stays", (text) => {
    expect(capped({ "grpc-timeout": text })).toEqual({ "grpc-timeout": text });
  });

  it.each(["2147483647", "0", "99999999999", "x"])("of %j milliseconds stays", (text) => {
    expect(capped({ "connect-timeout-ms": text })).toEqual({ "connect-timeout-ms": text });
    expect(capped({})).toEqual({});
  });
});
