import { expect, it } from "vitest";
import { figuresOf } from "./documents.ts";

it.each([
  ["1 MiB, before and after; 30 seconds to arrive", [1_048_576, 30_000]],
  ["`MAX`, 4,096 a worker", [4096]],
  ["8.6 billion (8.6 × 10^9), up to 2^53 - 1", [8.6e9, 8.6e9, 2 ** 53, 1]],
  ["10 min | 408, 413", [600_000, 408, 413]],
  ["over HTTP/2 or HTTP/1.1, for IPv4", []],
])("figuresOf converts numbers with units, and skips numbers in names: %s", (text, figures) => {
  expect(figuresOf(text)).toEqual(figures);
});
