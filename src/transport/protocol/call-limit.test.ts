import { expect, it } from "vitest";
import { CallLimit } from "./call-limit.ts";

it("a limit has as many places as it says, and gives those again that are given back", () => {
  const limit = new CallLimit(2);
  expect([limit.tryEnter(), limit.tryEnter(), limit.tryEnter(), limit.tryEnter()]).toEqual([true, true, false, false]);
  expect(limit.isFull).toBe(true);
  limit.leave();
  expect(limit.isFull).toBe(false);
  expect([limit.tryEnter(), limit.tryEnter()]).toEqual([true, false]);
});
