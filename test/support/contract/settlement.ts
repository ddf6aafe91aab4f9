import { describe, expect, it } from "vitest";
import { RecordUnreadable, StoreUnavailable, TokenNotFound } from "../../../src/domain/errors.ts";
import { byId, byToken, type ContractContext, contents, fails, keysOf, newEnvironment, newGroup } from "./context.ts";

/** The second half of a rotation by token, which binds the new token to the group's id. */
export function settlementContract(context: ContractContext): void {
  describe("a rotation by token that its worker did not settle", () => {
    answers(context);
    tampering(context);
  });
  settled(context);
}

/** A group whose last rotation is not settled. */
async function unsettled({ store, dyingStore, redis }: ContractContext) {
  const environment = newEnvironment();
  const { group: old } = await store().getOrCreate(environment, newGroup("a"));
  const dying = dyingStore();
  const group = await dying.rotate(environment, byToken(old.token, { requestId: "first" }));
  await dying.drain();
  const { group: key } = keysOf(environment, "a");
  expect(await redis().hexists(key, "token_link")).toBe(1);
  return { environment, old, group, key };
}

function answers(context: ContractContext): void {
  const { store, dyingStore, redis } = context;

  it("is read, changed, resolved and replayed as any other", async () => {
    const { environment, old, group } = await unsettled(context);
    expect(await store().getOrCreate(environment, newGroup("a"))).toEqual({ group, created: false });
    expect((await store().update(environment, "a", { name: "N" })).token).toBe(group.token);
    expect((await store().resolve(environment, group.token)).name).toBe("N");
    await fails(store().resolve(environment, old.token), TokenNotFound);
    await fails(store().rotate(environment, byToken(old.token)), TokenNotFound);
    expect(await store().rotate(environment, byToken(old.token, { requestId: "first" }))).toEqual(group);
  });

  it("is settled by the next rotation by token", async () => {
    const { environment, group, key } = await unsettled(context);
    const worker = store();
    const next = await worker.rotate(environment, byToken(group.token));
    await worker.drain();
    expect(await redis().hexists(key, "token_link")).toBe(0);
    expect((await store().getOrCreate(environment, newGroup("a"))).group).toEqual(next);
    await fails(store().resolve(environment, group.token), TokenNotFound);
  });

  it("is made up for by a rotation by id", async () => {
    const { environment, key } = await unsettled(context);
    const next = await store().rotate(environment, byId("a"));
    expect(await redis().hexists(key, "token_link")).toBe(0);
    expect((await store().getOrCreate(environment, newGroup("a"))).group).toEqual(next);
  });

  it("stays as it is when the next rotation cannot settle it", async () => {
    const { environment, group } = await unsettled(context);
    const before = await contents(redis(), environment);
    await fails(dyingStore().rotate(environment, byToken(group.token)), StoreUnavailable);
    expect(await contents(redis(), environment)).toEqual(before);
  });

  it("has one winner among 100 concurrent rotations of its token", async () => {
    const { environment, group } = await unsettled(context);
    const stores = [store({ worker: 0 }), store({ worker: 1 })];
    const outcomes = await Promise.allSettled(
      Array.from({ length: 100 }, (_, i) => stores[i % 2]?.rotate(environment, byToken(group.token))),
    );
    const won = outcomes.flatMap((outcome) => (outcome.status === "fulfilled" ? [outcome.value] : []));
    expect(won).toHaveLength(1);
    for (const outcome of outcomes) {
      if (outcome.status === "rejected") expect(outcome.reason).toBeInstanceOf(TokenNotFound);
    }
    await Promise.all(stores.map((each) => each.drain()));
    expect((await store().getOrCreate(environment, newGroup("a"))).group).toEqual(won[0]);
  });
}

function tampering(context: ContractContext): void {
  const { store, redis } = context;
  const refused = async ({ environment, group }: Awaited<ReturnType<typeof unsettled>>) => {
    await fails(store().getOrCreate(environment, newGroup("a")), RecordUnreadable);
    await fails(store().update(environment, "a", {}), RecordUnreadable);
    return { environment, group };
  };

  it("answers nobody when its link is taken away", async () => {
    const state = await unsettled(context);
    await redis().hdel(state.key, "token_link");
    await refused(state);
  });

  it.each(["", "k1.", "k1.AAAA", "gone.AAAA"])("answers nobody when its link is %j", async (link) => {
    const state = await unsettled(context);
    await redis().hset(state.key, "token_link", link);
    const { environment, group } = await refused(state);
    await fails(store().rotate(environment, byToken(group.token)), RecordUnreadable);
  });

  it("answers nobody when its link, or what it hangs on, comes from another group", async () => {
    for (const field of ["token_link", "token"]) {
      const [state, other] = [await unsettled(context), await unsettled(context)];
      await redis().hset(state.key, field, (await redis().hget(other.key, field)) ?? "");
      const { environment, group } = await refused(state);
      await fails(store().rotate(environment, byToken(group.token)), RecordUnreadable);
    }
  });

  it("answers nobody when a settled token is put in place of the link", async () => {
    const state = await unsettled(context);
    await redis().hset(state.key, "token_link", (await redis().hget(state.key, "token")) ?? "");
    await refused(state);
  });
}

function settled({ store, redis }: ContractContext): void {
  describe("a rotation by token", () => {
    it("is settled behind its answer, which changes nothing that callers see", async () => {
      const environment = newEnvironment();
      const { group: old } = await store().getOrCreate(environment, newGroup("a"));
      const { group: key } = keysOf(environment, "a");
      const worker = store();
      const group = await worker.rotate(environment, byToken(old.token));
      await worker.drain();
      const record = await redis().hgetall(key);
      expect(record).not.toHaveProperty("token_link");
      expect((await store().getOrCreate(environment, newGroup("a"))).group).toEqual(group);
    });

    it("is not settled over a rotation that came in between", async () => {
      const environment = newEnvironment();
      const { group: old } = await store().getOrCreate(environment, newGroup("a"));
      const worker = store();
      // Both leave at once, so that the settlement of the first meets the outcome of the second.
      const [first, second] = await Promise.all([
        worker.rotate(environment, byToken(old.token)),
        worker.rotate(environment, byId("a")),
      ]);
      await worker.drain();
      expect(first?.token).not.toBe(second?.token);
      const { group } = await store().getOrCreate(environment, newGroup("a"));
      expect(group).toEqual(second);
      expect((await store().resolve(environment, group.token)).providedId).toBe("a");
    });
  });
}
