import { expect, it } from "vitest";
import type { RingKey } from "../store/encryption.ts";
import { requireSuccessor } from "./reload.ts";

const key = (id: string, byte: number): RingKey => ({ id, secret: new Uint8Array(32).fill(byte) });
const [a, b] = [key("a", 1), key("b", 2)];

it.each<[string, RingKey[], RingKey[], string]>([
  ["begins with a new key", [a], [b, a], "is new"],
  ["lacks a key that the embedded store uses", [a, b], [a], "TOKEN_KEYS lacks b"],
  ["has another secret for an existing id", [a], [key("a", 3)], "id a"],
])("rejects new TOKEN_KEYS if the value %s", async (_name, ring, next, fault) => {
  await expect(requireSuccessor(ring, next, undefined)).rejects.toThrow(fault);
});

it("accepts new TOKEN_KEYS if a key is appended, or if the order of the keys changes", async () => {
  await requireSuccessor([a], [a, b], undefined);
  await requireSuccessor([a, b], [b, a], undefined);
});
