import { readFileSync } from "node:fs";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { Environment } from "../domain/environment.ts";
import { ViewerSessionExpired, ViewerSessionInvalid } from "../domain/errors.ts";
import type { ViewerSessionStore } from "../domain/viewer-session.ts";
import { groupFromMessage } from "../rpc/messages.ts";
import { newKeyPair } from "./signing.ts";
import { SigningKeys } from "./signing-keys.ts";
import { ViewerSessions } from "./viewer-sessions.ts";

afterEach(() => {
  vi.useRealTimers();
});

function keysOf(
  pairs: readonly { readonly kid: string; readonly x: string; readonly y: string; readonly d: string }[],
) {
  const environment: Environment = { name: "acme", tag: undefined, number: 1 };
  const times = { createTime: 0, activeTime: 0 };
  const set = { keys: pairs.map((pair) => ({ ...pair, ...times, sealed: undefined })), version: "1", now: 1 };
  const keys = new SigningKeys({
    store: {
      read: async () => set,
      replace: async () => ({ ...set, isMade: true }),
    },
    environments: { find: async () => environment },
    confirmMissing: async () => {},
    unsubscribedMs: 5000,
    onOverdue: (error) => expect.fail(String(error)),
  });
  return { environment, keys };
}

it("the lifetime of a session starts before the read of its group, so that a later revocation applies to the session", async () => {
  const { environment, keys } = keysOf([{ kid: "k", ...(await newKeyPair()) }]);
  vi.useFakeTimers({ toFake: ["Date"], now: 1_000_000_000 });
  const viewer = { teamId: 1, ...groupFromMessage("a", { mapping: {} }), suspension: undefined };
  const store: ViewerSessionStore = {
    async sessionSubject() {
      vi.setSystemTime(1_000_060_000);
      return { viewer: { ...viewer, tokenExpireTime: undefined }, generation: 0 };
    },
    resolveSession: () => expect.fail("no session is resolved"),
  };
  const sessions = new ViewerSessions({ keys, maxMs: 3_600_000, publicUrl: "https://example.com" });
  const made = await sessions.create(store, environment, {
    ...{ target: { by: "id", providedId: "a" }, audience: "x", ttlMs: 3_600_000 },
    ...{ viewerId: "bob", origin: undefined, propertyKeys: [], claims: undefined },
  });
  expect(made.expireTime).toBe(1_003_600_000);
});

/** Test cases that the service and all clients share. `refused` is undefined if the session is valid. */
const suite: {
  readonly now: number;
  readonly issuer: string;
  readonly audience: string;
  readonly keys: readonly { readonly kid: string; readonly kty: string; readonly x: string; readonly y: string }[];
  readonly cases: readonly {
    readonly name: string;
    readonly session: string;
    readonly at?: number;
    readonly refused?: string;
  }[];
} = JSON.parse(readFileSync("test/fixtures/viewer-sessions.json", "utf8"));

describe("a session in viewer-sessions.json", () => {
  const viewer = { teamId: 1, name: "A", providedId: "a", mapping: {}, properties: undefined, suspension: undefined };
  const store = { resolveSession: async () => viewer } as unknown as ViewerSessionStore;

  const cases = suite.cases.map((each) => ({ ...each, result: each.refused ?? "valid" }));
  it.each(cases)('"$name" has the result $result', async ({ session, at = suite.now, refused }) => {
    const ours = suite.keys.filter(({ kty }) => kty === "EC").map((key) => ({ ...key, d: "" }));
    const { environment, keys } = keysOf(ours);
    vi.useFakeTimers({ toFake: ["Date"], now: at * 1000 });
    const [publicUrl] = suite.issuer.split("/e/");
    const sessions = new ViewerSessions({ keys, maxMs: 3_600_000, publicUrl });
    const own = { ...environment, tag: "Customer" } as Environment;
    const resolved = sessions.resolve(store, own, { session, audience: suite.audience });
    if (refused === undefined) expect(await resolved).toMatchObject({ viewer, claims: { aud: suite.audience } });
    else await expect(resolved).rejects.toThrow(refused === "expired" ? ViewerSessionExpired : ViewerSessionInvalid);
  });
});
