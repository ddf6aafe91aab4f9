import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { ApiTokenKey, ValidApiToken } from "../domain/api-token.ts";
import type { Environment } from "../domain/environment.ts";
import { newApiToken, newUserGroupToken } from "../domain/token.ts";
import { ApiTokens, IssuedTokens, ROOT } from "./api-tokens.ts";

const CACHE_MS = 5000;
const ENVIRONMENT = { name: "acme", tag: undefined, number: 1 } as const;

function valid(given: Partial<ValidApiToken> = {}): ValidApiToken {
  const apiToken = { id: "a", displayName: "A", role: "manage", createTime: 1, creator: "root" } as const;
  const unset = { expireTime: undefined, lastUseTime: undefined, rotator: undefined, graceExpireTime: undefined };
  return {
    apiToken: { ...apiToken, ...unset, tokenCreateTime: 1 },
    isReplaced: false,
    environment: ENVIRONMENT,
    expiresInMs: Number.POSITIVE_INFINITY,
    unusedForMs: Number.POSITIVE_INFINITY,
    ...given,
  };
}

const keyOf = (digest: string): ApiTokenKey => ({ number: ENVIRONMENT.number, digest });

/**
 * Creates `IssuedTokens` with a fake store. `reads` contains the reads of the store, and the test completes these
 * reads.
 */
function open(cacheMs = CACHE_MS) {
  const reads: { digest: string; answer(found?: ValidApiToken): void; fail(error: Error): void }[] = [];
  const find = ({ digest }: ApiTokenKey) =>
    new Promise<ValidApiToken | undefined>((resolve, reject) => reads.push({ digest, answer: resolve, fail: reject }));
  const note = vi.fn(async (_environment: Environment, _id: string) => {});
  const issued = new IssuedTokens({ store: { find, noteUse: note }, cacheMs });
  const call = async (digest: string, found?: ValidApiToken) => {
    const before = reads.length;
    const known = issued.cached(digest) ?? issued.find(keyOf(digest));
    for (const read of reads.slice(before)) read.answer(found);
    return known;
  };
  return { issued, reads, note, call };
}

describe("IssuedTokens", () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ["performance"] }));
  afterEach(() => void vi.useRealTimers());

  it("caches a token for cacheMs, counted from the start of the read", async () => {
    const { issued, reads, call } = open();
    const first = issued.find(keyOf("d"));
    vi.advanceTimersByTime(1000);
    reads[0]?.answer(valid());
    expect(await first).toMatchObject({ id: "a", role: "manage", environment: ENVIRONMENT });
    vi.advanceTimersByTime(CACHE_MS - 1001);
    expect(issued.cached("d")).toBe(await first);
    vi.advanceTimersByTime(1);
    expect(issued.cached("d")).toBeUndefined();
    expect(await call("d", undefined)).toBeUndefined();
    expect(reads).toHaveLength(2);
  });

  it("does not cache a token beyond its expiry", async () => {
    const { issued, call } = open();
    await call("d", valid({ expiresInMs: 700 }));
    vi.advanceTimersByTime(699);
    expect(issued.cached("d")).toBeDefined();
    vi.advanceTimersByTime(1);
    expect(issued.cached("d")).toBeUndefined();
  });

  it("shares one read among concurrent calls, even if the read fails", async () => {
    const { issued, reads } = open();
    const calls = [issued.find(keyOf("d")), issued.find(keyOf("d")), issued.find(keyOf("other"))];
    expect(reads.map(({ digest }) => digest)).toEqual(["d", "other"]);
    reads[0]?.fail(new Error("away"));
    reads[1]?.answer(valid());
    const [one, two, other] = await Promise.allSettled(calls);
    expect([one?.status, two?.status, other?.status]).toEqual(["rejected", "rejected", "fulfilled"]);
    issued.find(keyOf("d"));
    expect(reads).toHaveLength(3);
  });

  it("`find` rejects if the cache entry has expired and the store fails", async () => {
    const { issued, reads, call } = open();
    await call("d", valid());
    vi.advanceTimersByTime(CACHE_MS);
    const failing = issued.find(keyOf("d"));
    reads[1]?.fail(new Error("away"));
    await expect(failing).rejects.toThrow("away");
    expect(issued.cached("d")).toBeUndefined();
  });

  it("caches unknown tokens without evicting known tokens", async () => {
    const { issued, reads, call } = open();
    await call("known", valid());
    for (let i = 0; i < 10_001; i++) await call(`guess${i}`, undefined);
    expect(issued.cached("known")).toBeDefined();
    const { length } = reads;
    expect(await call("guess10000")).toBeUndefined();
    expect(reads).toHaveLength(length);
    // At most 10,000 unknown tokens are cached, so the first guess was evicted.
    await call("guess0", undefined);
    expect(reads).toHaveLength(length + 1);
    vi.advanceTimersByTime(CACHE_MS);
    await call("guess10000", undefined);
    expect(reads).toHaveLength(length + 2);
  });

  it("caches a limited number of known tokens", async () => {
    const { issued, call } = open();
    for (let i = 0; i < 10_001; i++) await call(`known${i}`, valid());
    expect(issued.cached("known0")).toBeUndefined();
    expect(issued.cached("known1")).toBeDefined();
  });

  it.each(["revoked", "missed", "deleted"] as const)(
    "removes the affected tokens from the cache after the revocation feed reports `%s`",
    async (how) => {
      const { issued, call } = open();
      await call("d", valid());
      await call("other", valid());
      await call("of another environment", valid({ environment: { ...ENVIRONMENT, number: 2 } }));
      if (how === "revoked") issued.revoked("d");
      else if (how === "missed") issued.missed();
      else issued.environmentDeleted(ENVIRONMENT);
      expect(issued.cached("d")).toBeUndefined();
      expect(issued.cached("other") !== undefined).toBe(how === "revoked");
      expect(issued.cached("of another environment") !== undefined).toBe(how !== "missed");
      expect(await call("d", undefined)).toBeUndefined();
    },
  );

  it.each(["revoked", "missed"] as const)(
    "does not cache a token if the revocation feed reports `%s` during the read of the token",
    async (how) => {
      const { issued, reads } = open();
      const before = issued.find(keyOf("d"));
      if (how === "revoked") issued.revoked("d");
      else issued.missed();
      const after = issued.find(keyOf("d"));
      expect(reads).toHaveLength(2);
      reads[0]?.answer(valid());
      await before;
      expect(issued.cached("d")).toBeUndefined();
      reads[1]?.answer(undefined);
      expect(await after).toBeUndefined();
      expect(issued.cached("d")).toBeUndefined();
    },
  );

  it("reads the store in every call if cacheMs is 0", async () => {
    const { issued, reads, call } = open(0);
    await call("d", valid());
    expect(issued.cached("d")).toBeUndefined();
    const [one, two] = [issued.find(keyOf("d")), issued.find(keyOf("d"))];
    expect(reads).toHaveLength(3);
    reads[1]?.answer(valid());
    reads[2]?.answer(undefined);
    expect(await one).toBeDefined();
    expect(await two).toBeUndefined();
    await call("unknown", undefined);
    await call("unknown", undefined);
    expect(reads).toHaveLength(5);
  });

  it("records the use of a token at most once a minute", async () => {
    const { issued, note, call } = open(120_000);
    await call("d", valid());
    expect(note).toHaveBeenCalledTimes(1);
    expect(note.mock.calls[0]).toEqual([ENVIRONMENT, "a"]);
    vi.advanceTimersByTime(59_999);
    issued.cached("d");
    expect(note).toHaveBeenCalledTimes(1);
    vi.advanceTimersByTime(1);
    issued.cached("d");
    issued.cached("d");
    expect(note).toHaveBeenCalledTimes(2);
    // The store reports that another worker recorded a use half a minute ago.
    await call("e", valid({ unusedForMs: 30_000 }));
    vi.advanceTimersByTime(29_999);
    issued.cached("e");
    expect(note).toHaveBeenCalledTimes(2);
    vi.advanceTimersByTime(1);
    issued.cached("e");
    expect(note).toHaveBeenCalledTimes(3);
  });

  it("accepts a token whose use cannot be recorded, and records a later use", async () => {
    const { issued, note, call } = open(120_000);
    note.mockRejectedValueOnce(new Error("away"));
    expect(await call("d", valid())).toMatchObject({ id: "a" });
    vi.advanceTimersByTime(60_000);
    expect(issued.cached("d")).toMatchObject({ id: "a" });
    expect(note).toHaveBeenCalledTimes(2);
  });
});

describe("ApiTokens", () => {
  it("does not read the store for a token of the settings or for a malformed token", async () => {
    const { issued, reads } = open();
    const own = newApiToken(1);
    const tokens = new ApiTokens(issued);
    tokens.use([{ token: own, principal: ROOT, lookUp: async () => ROOT }]);
    expect(tokens.authenticate(own)).toBe(ROOT);
    const other = newApiToken(1);
    const malformed = [
      ...[newUserGroupToken(), "", "x", "x".repeat(42), own.slice(0, -1), `${own}0`, other.toUpperCase()],
      other.replace(/.$/, (last) => (last === "0" ? "1" : "0")),
    ];
    for (const token of malformed) expect(tokens.authenticate(token), token).toBeUndefined();
    expect(reads).toEqual([]);
    const looked = tokens.authenticate(other);
    expect(reads).toHaveLength(1);
    expect(JSON.stringify(reads)).not.toContain(other.slice(4));
    reads[0]?.answer(valid());
    expect(await looked).toMatchObject({ id: "a" });
    expect(tokens.authenticate(other)).toMatchObject({ id: "a" });
  });
});
