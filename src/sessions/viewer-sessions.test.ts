import { newKeyPair } from "@user-group-service/sessions";
import { afterEach, expect, it, vi } from "vitest";
import type { Environment } from "../domain/environment.ts";
import type { ViewerSessionStore } from "../domain/viewer-session.ts";
import { SigningKeys } from "./signing-keys.ts";
import { ViewerSessions } from "./viewer-sessions.ts";

afterEach(() => {
  vi.useRealTimers();
});

it("a session's life begins before its group is read, however long that takes: an ending after that outlasts it", async () => {
  const environment: Environment = { name: "acme", tag: undefined, partitions: 1, number: 1 };
  const times = { createTime: 0, activeTime: 0 };
  const set = { keys: [{ kid: "k", ...times, ...(await newKeyPair()), sealed: undefined }], version: "1", now: 1 };
  const keys = new SigningKeys({
    store: { read: async () => set, replace: async () => ({ ...set, isMade: true }) },
    unsubscribedMs: 5000,
    onOverdue: (error) => expect.fail(String(error)),
  });
  vi.useFakeTimers({ toFake: ["Date"], now: 1_000_000_000 });
  const viewer = { teamId: 1, name: "A", providedId: "a", mapping: {}, properties: undefined };
  const store: ViewerSessionStore = {
    async sessionSubject() {
      vi.setSystemTime(1_000_060_000);
      return { viewer: { ...viewer, environmentTag: undefined, tokenExpireTime: undefined }, generation: 0 };
    },
    resolveSession: () => expect.fail("no session is looked for"),
  };
  const sessions = new ViewerSessions({ keys, maxMs: 3_600_000, publicUrl: () => "https://example.com" });
  const made = await sessions.create(store, environment, {
    ...{ target: { by: "id", providedId: "a" }, audience: "x", ttlMs: 3_600_000 },
    ...{ viewerId: "bob", origin: undefined, propertyKeys: [], claims: undefined },
  });
  expect(made.expireTime).toBe(1_003_600_000);
  keys.close();
});
