import { expect, it, vi } from "vitest";
import { StoreUnavailable, TokenTaken } from "../domain/errors.ts";
import { tokenDigest } from "./encryption.ts";
import type { GroupParts } from "./group-parts.ts";
import { importGroups } from "./imports.ts";
import { REQUEST_TTL_MS } from "./keys.ts";

const ENVIRONMENT = { name: "acme", tag: undefined, partitions: 1, number: 1 } as const;
const GROUP = { providedId: "a", name: "A", mapping: {}, properties: undefined, token: "foreign-token-1" };

// The store may have made a claim that nobody was told of.
it.each([new StoreUnavailable(new Error("claim-token: no answer in time"), "not_made"), new TokenTaken()])(
  "an import whose claim fails forgets what it may have claimed for its group: %s",
  async (error) => {
    const claim = vi.fn(() => Promise.reject(error));
    const releaseLater = vi.fn();
    const client = { run: () => Promise.resolve({}) };
    const parts = { client, foreignTokens: { claim, releaseLater } } as unknown as GroupParts;
    const how = { mode: "create-only", by: {} } as Parameters<typeof importGroups>[3];
    const outcomes = await importGroups(parts, ENVIRONMENT, [GROUP], how);
    expect(outcomes).toEqual([{ outcome: "failed", error }]);
    const release = { id: "a", keepMs: REQUEST_TTL_MS };
    expect(releaseLater.mock.calls).toEqual([[ENVIRONMENT, tokenDigest(GROUP.token), release]]);
  },
);
