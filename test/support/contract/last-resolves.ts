import { expect, it, vi } from "vitest";
import type { Environment } from "../../../src/domain/environment.ts";
import { UserGroupNotFound } from "../../../src/domain/errors.ts";
import { LastResolves } from "../../../src/store/groups/last-resolves.ts";
import { type ContractContext, contents, eventsOf, newEnvironment, newGroup } from "./context.ts";

export function lastResolveContract({ store, admin, redis, client, withGroup }: ContractContext): void {
  const today = () => Math.floor(Date.now() / 86_400_000);
  /** Resolves a group and notes the day of the resolve, as ViewerService does. */
  const resolve = async (notes: LastResolves, environment: Environment, token: string) =>
    notes.note(environment, await store().resolve(environment, token));
  const dayOf = async (environment: Environment, id = "a") => (await admin().lookUp(environment, id)).lastResolveDay;

  it("records the day of the last resolve, but changes no other field and writes no event", async () => {
    const { environment, group } = await withGroup();
    const before = await contents(redis(), environment);
    const notes = new LastResolves(client());
    const day = today();
    await resolve(notes, environment, group.token);
    expect(await contents(redis(), environment)).toEqual(before);
    await notes.write();
    const { items } = await admin().list(environment, { after: "", size: 9, prefix: "" });
    expect(items[0]).toMatchObject({ etag: group.etag, updateTime: group.updateTime });
    expect([day, today()]).toContain(items[0]?.lastResolveDay);
    expect(await store().get(environment, "a")).toEqual(group);
    expect(await eventsOf(client(), environment)).toHaveLength(1);
  });

  it("writes each group only once a day, in batches per environment", async () => {
    const [one, other] = [await newEnvironment(), await newEnvironment()];
    const notes = new LastResolves(client());
    const tokens: (readonly [Environment, string])[] = [];
    for (let i = 0; i < 101; i++)
      tokens.push([one, (await store().getOrCreate(one, newGroup(String(i)))).group.token] as const);
    tokens.push([other, (await store().getOrCreate(other, newGroup("a"))).group.token]);
    const change = vi.spyOn(client(), "change");
    const rounds: number[] = [];
    for (let round = 0; round < 2; round++) {
      for (const [environment, token] of tokens) await resolve(notes, environment, token);
      await notes.write();
      rounds.push(change.mock.calls.length);
    }
    change.mockRestore();
    expect(rounds).toEqual([3, 3]);
    expect(await dayOf(one, "100")).toBeGreaterThan(0);
    expect(await dayOf(other)).toBeGreaterThan(0);
  });

  it("keeps the latest day, and does not write a day in the future", async () => {
    const { environment, group } = await withGroup();
    const viewer = await store().resolve(environment, group.token);
    const write = async (day: number) => {
      const clock = vi.spyOn(Date, "now").mockReturnValue(day * 86_400_000);
      const notes = new LastResolves(client());
      notes.note(environment, viewer);
      clock.mockRestore();
      await notes.write();
      return dayOf(environment);
    };
    expect(await write(20_000)).toBe(20_000);
    expect(await write(19_999)).toBe(20_000);
    expect([today(), today() - 1]).toContain(await write(99_999));
  });

  it("writes nothing for a deleted group, even if a new group has its id", async () => {
    const { environment, group } = await withGroup();
    const { group: other } = await store().getOrCreate(environment, newGroup("b"));
    const notes = new LastResolves(client());
    const note = async () => {
      for (const { token } of [group, other]) await resolve(notes, environment, token);
    };
    await note();
    await admin().delete(environment, "a");
    await notes.write();
    await expect(dayOf(environment)).rejects.toBeInstanceOf(UserGroupNotFound);
    expect(await dayOf(environment, "b")).toBeGreaterThan(0);
    const { group: next } = await store().getOrCreate(environment, newGroup("a"));
    notes.note(environment, { ...(await store().resolve(environment, next.token)), teamId: group.teamId });
    await notes.write();
    expect(await dayOf(environment)).toBeUndefined();
  });
}
