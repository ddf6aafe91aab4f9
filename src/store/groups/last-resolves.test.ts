import { describe, expect, it, vi } from "vitest";
import type { Environment } from "../../domain/environment.ts";
import type { Viewer } from "../../domain/user-group.ts";
import type { StoreClient } from "../connection/client.ts";
import { LastResolves } from "./last-resolves.ts";

const ENVIRONMENT = { name: "acme", tag: undefined, number: 1 } as Environment;

function viewer(providedId: string): Viewer {
  return { teamId: 1, providedId } as Viewer;
}

function newClient(fail?: () => Promise<never>) {
  const written: number[] = [];
  const change = async (
    _operation: string,
    _script: unknown,
    { extraArgs = [] }: { extraArgs?: readonly string[] },
  ) => {
    written.push(extraArgs.length / 3);
    if (fail) await fail();
    return ["noted", "0"];
  };
  return { written, client: { change } as unknown as Pick<StoreClient, "change"> };
}

describe("LastResolves", () => {
  it("stores notes of at most 5,000 groups, and writes the notes in batches of 100", async () => {
    const { client, written } = newClient();
    const notes = new LastResolves(client);
    for (let i = 0; i < 6000; i++) notes.note(ENVIRONMENT, viewer(String(i % 5500)));
    expect(written).toEqual([]);
    await notes.write();
    expect(written).toEqual(Array(50).fill(100));
    await notes.write();
    expect(written).toHaveLength(50);
  });

  it("drops all notes after a failed write, and writes later notes", async () => {
    let isAway = true;
    const { client, written } = newClient(async () => {
      if (isAway) throw new Error("away");
      return undefined as never;
    });
    const notes = new LastResolves(client);
    for (let i = 0; i < 300; i++) notes.note(ENVIRONMENT, viewer(String(i)));
    await notes.write();
    expect(written).toEqual([100]);
    isAway = false;
    await notes.write();
    notes.note(ENVIRONMENT, viewer("a"));
    await notes.write();
    expect(written).toEqual([100, 1]);
  });

  it("writes the notes one minute after the first note", async () => {
    vi.useFakeTimers();
    try {
      const { client, written } = newClient();
      const notes = new LastResolves(client);
      notes.note(ENVIRONMENT, viewer("a"));
      await vi.advanceTimersByTimeAsync(59_000);
      notes.note(ENVIRONMENT, viewer("b"));
      expect(written).toEqual([]);
      await vi.advanceTimersByTimeAsync(1000);
      expect(written).toEqual([2]);
      await vi.advanceTimersByTimeAsync(600_000);
      expect(written).toEqual([2]);
    } finally {
      vi.useRealTimers();
    }
  });
});
