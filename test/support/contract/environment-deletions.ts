import { describe, expect, it } from "vitest";
import type { EnvironmentName } from "../../../src/domain/environment.ts";
import {
  EnvironmentBeingDeleted,
  EnvironmentExists,
  EnvironmentNotEmpty,
  EnvironmentNotFound,
  StoreUnavailable,
} from "../../../src/domain/errors.ts";
import { redisAuditTrail } from "../../../src/store/audit-trail.ts";
import type { EnvironmentDeps } from "../../../src/store/environments.ts";
import {
  ADD_MEMBER,
  BEGIN_DELETION,
  CLEAR_ENVIRONMENT,
  CREATE_ENVIRONMENT,
  REMOVE_MEMBER,
} from "../../../src/store/scripts.ts";
import { listedNumbers } from "../stored-keys.ts";
import { leftovers } from "../stored-state.ts";
import { AUDIT, BY, testApiTokens, testEnvironments } from "../stores.ts";
import {
  byId,
  type ContractContext,
  contents,
  failingAt,
  fails,
  heldUpAt,
  imported,
  newGroup,
  newName,
} from "./context.ts";

const NEW_TOKEN = { displayName: "x", role: "manage", expireTime: undefined } as const;

const FIRST = { after: "", size: 1000 };

export function environmentDeletionContract({ client, store, admin, redis }: ContractContext): void {
  const environments = ({ worker = 0, ...given }: { worker?: number } & Partial<EnvironmentDeps> = {}) =>
    testEnvironments(client(worker), given);
  const tokens = (worker = 0) => testApiTokens(client(worker));
  const create = () => environments().create({ name: newName(), tag: undefined });
  const ids = (count: number) => Array.from({ length: count }, (_, i) => `group ${i}`);
  const isNowhere = async (name: EnvironmentName) => {
    await fails(environments({ worker: 1 }).find(name), EnvironmentNotFound);
    await fails(environments({ worker: 1 }).get(name), EnvironmentNotFound);
    await fails(environments({ worker: 1 }).delete(name, true), EnvironmentNotFound);
  };

  describe("deletion of environments", () => {
    it("fails without force if the environment contains groups", async () => {
      const environment = await create();
      await fails(environments().delete({ name: newName(), tag: undefined }, false), EnvironmentNotFound);
      for (const id of ids(7)) await store().getOrCreate(environment, newGroup(id));
      expect(await environments({ worker: 1 }).countUserGroups(environment)).toBe(7);
      const before = await contents(redis(), environment);
      await fails(environments().delete(environment, false), EnvironmentNotEmpty);
      expect(await contents(redis(), environment)).toEqual(before);
      for (const id of ids(7)) await admin().delete(environment, id);
      expect(await environments({ worker: 1 }).get(environment)).toEqual(environment);
      expect(await environments().delete(environment, false)).toBe(0);
      await isNowhere(environment);
    });

    it("fails without force if a group is created concurrently", async () => {
      const environment = await create();
      const late = () => store().getOrCreate(environment, newGroup("late"));
      const slow = testEnvironments(heldUpAt(client(), BEGIN_DELETION.name, late));
      await fails(slow.delete(environment, false), EnvironmentNotEmpty);
      expect((await store().getOrCreate(environment, newGroup("a"))).created).toBe(true);
    });

    it("proceeds in limited steps, and after the first step, no token is valid and no change is possible", async () => {
      const environment = await create();
      const made = await Promise.all(ids(30).map((id) => store().getOrCreate(environment, newGroup(id))));
      const foreign = [imported("foreign 1"), imported("foreign 2")];
      await admin().import(environment, foreign);
      await store().rotate(environment, byId("group 1", { graceMs: 3_600_000 }));
      await admin().endSessions(environment, { providedId: "group 2", viewerId: "bob" }, BY);
      const { apiToken, token } = await tokens().create(environment, NEW_TOKEN);
      const steps = [await environments({ maxGroups: 9 }).delete(environment, true)];
      expect(steps[0]).toBeGreaterThan(0);
      const { items } = await environments().list({ after: environment.name, size: 1 });
      expect(items[0]).toMatchObject({ name: environment.name, deleteTime: expect.any(Number) });
      for (const worker of [0, 1]) {
        const groups = store({ worker });
        await fails(groups.getOrCreate(environment, newGroup("new")), EnvironmentNotFound);
        await fails(groups.update(environment, "group 29", { name: "x" }), EnvironmentNotFound);
        await fails(groups.rotate(environment, byId("group 29")), EnvironmentNotFound);
        for (const { group } of made) await fails(groups.resolve(environment, group.token), EnvironmentNotFound);
        const [outcome] = await admin({ worker }).import(environment, [imported("new", { token: undefined })]);
        expect(outcome).toMatchObject({ outcome: "failed", error: { reason: "ENVIRONMENT_NOT_FOUND" } });
        await fails(environments({ worker }).find(environment), EnvironmentNotFound);
        await fails(environments({ worker }).ensureEnvironment(environment), EnvironmentNotFound);
        await fails(environments({ worker }).create(environment), EnvironmentBeingDeleted);
        await fails(tokens(worker).create(environment, NEW_TOKEN), EnvironmentNotFound);
        await fails(tokens(worker).revoke(environment, apiToken.id), EnvironmentNotFound);
        expect((await environments({ worker }).get(environment)).deleteTime).toBeGreaterThan(0);
      }
      expect(token).toMatch(/^ugk_/);
      for (let left = steps[0] ?? 0; left > 0; steps.push(left)) {
        // Only the call that begins the deletion must set `force`. Later calls continue the deletion without `force`.
        left = await environments({ worker: steps.length, maxGroups: 9 }).delete(environment, steps.length > 1);
      }
      expect(steps.length).toBeGreaterThan(3);
      expect(steps).toEqual([...steps].sort((one, other) => other - one));
      await isNowhere(environment);
      expect(await leftovers(redis(), environment)).toEqual([]);
    });

    it.each(Object.entries({ BEGIN_DELETION, CLEAR_ENVIRONMENT, REMOVE_MEMBER }))(
      "a deletion is continued by the next call if a worker exits before the script %s",
      async (_, script) => {
        const environment = await create();
        for (const id of ids(5)) await store().getOrCreate(environment, newGroup(id));
        await tokens().create(environment, NEW_TOKEN);
        const cutOff = testEnvironments(failingAt(client(), script.name));
        await fails(cutOff.delete(environment, true), StoreUnavailable);
        await environments({ worker: 1 })
          .delete(environment, true)
          .catch((error: unknown) => expect(error).toBeInstanceOf(EnvironmentNotFound));
        await isNowhere(environment);
        const again = await environments().create(environment);
        expect(again.number).not.toBe(environment.number);
        expect(await environments({ worker: 1 }).find(environment)).toMatchObject({ number: again.number });
        expect((await store().getOrCreate(again, newGroup("group 1"))).created).toBe(true);
      },
    );

    it("a deletion is final, and calls to the deleted environment do not reach a new environment with the same name", async () => {
      const environment = await create();
      const { name, tag } = environment;
      const numbers = new Set([environment.number]);
      await store().getOrCreate(environment, newGroup("a"));
      expect(await environments().delete(environment, true)).toBe(0);
      await fails(environments().ensureEnvironment({ name, tag }), EnvironmentNotFound);
      for (let i = 0; i < 20; i++) {
        const again = await environments().create({ name, tag });
        expect(again).toMatchObject({ deleteTime: undefined });
        await fails(environments({ worker: 1 }).create({ name, tag }), EnvironmentExists);
        numbers.add(again.number);
        const { group } = await store().getOrCreate(again, newGroup("a"));
        await fails(store().getOrCreate(environment, newGroup("of the old one")), EnvironmentNotFound);
        await fails(store().sessionSubject(environment, byId("a").target), EnvironmentNotFound);
        await fails(store().resolve(environment, group.token), EnvironmentNotFound);
        expect((await store().resolve(again, group.token)).teamId).toBe(group.teamId);
        expect(await environments().delete(again, true)).toBe(0);
      }
      expect(numbers.size).toBe(21);
    });

    it("succeeds under concurrent deletions and creations of the same environment", async () => {
      const environment = await create();
      const { name, tag } = environment;
      await Promise.all(ids(20).map((id) => store().getOrCreate(environment, newGroup(id))));
      const tries = Array.from({ length: 6 }, async (_, worker) => {
        const left = await environments({ worker, maxGroups: 3 })
          .delete(environment, true)
          .catch((error: Error) => error);
        await environments({ worker })
          .ensureEnvironment({ name, tag })
          .catch(() => {});
        await Promise.allSettled(
          ids(20).map((id) => store({ worker }).getOrCreate(environment, newGroup(`${worker} ${id}`))),
        );
        return left;
      });
      for (const left of await Promise.all(tries)) {
        expect(typeof left === "number" || left instanceof EnvironmentNotFound, String(left)).toBe(true);
      }
      for (let left = 1; left > 0; ) {
        left = await environments({ maxGroups: 3 })
          .delete(environment, true)
          .catch((error: unknown) => {
            if (error instanceof EnvironmentNotFound) return 0;
            throw error;
          });
      }
      expect(await environments().countUserGroups(environment)).toBe(0);
      await isNowhere(environment);
    });

    it("keeps an environment in the list if the environment is created again before the last step", async () => {
      const environment = await create();
      const slow = heldUpAt(client(), REMOVE_MEMBER.name, async () => {
        await environments({ worker: 1 }).create(environment);
      });
      // REMOVE_MEMBER is the last step of a deletion. After this step, the worker that deletes must not add the
      // environment to the list again. The test makes ADD_MEMBER fail, so an addition would make the deletion fail.
      expect(await testEnvironments(failingAt(slow, ADD_MEMBER.name)).delete(environment, true)).toBe(0);
      const again = await environments().find(environment);
      expect(again.number).not.toBe(environment.number);
      expect(await listedNumbers(redis(), environment)).toEqual([again.number]);
      expect(await environments().delete(environment, true)).toBe(0);
      expect(await listedNumbers(redis(), environment)).toEqual([]);
    });

    it("a deletion is not undone by a delayed worker that tries to create the environment", async () => {
      const { name, tag } = { name: newName(), tag: undefined };
      const slow = heldUpAt(client(), CREATE_ENVIRONMENT.name, async () => {
        await environments({ worker: 1 }).create({ name, tag });
        await environments({ worker: 1 }).delete({ name, tag }, true);
      });
      await fails(testEnvironments(slow).ensureEnvironment({ name, tag }), EnvironmentNotFound);
      await isNowhere({ name, tag });
    });

    it("keeps the audit trail, separately from the trail of a new environment with the same name", async () => {
      const environment = await create();
      await store().getOrCreate(environment, newGroup("a"));
      await tokens().create(environment, NEW_TOKEN);
      await environments().delete(environment, true, { ...BY, method: "DeleteEnvironment" });
      const [former, ...none] = await environments().findAll(environment);
      expect([former?.number, none]).toEqual([environment.number, []]);
      const trail = redisAuditTrail(client(), AUDIT);
      const { items } = await trail.list(former ? [former] : [], {}, FIRST);
      expect(items.filter(({ method }) => method === "DeleteEnvironment")).toMatchObject([
        { changedFields: [] },
        { changedFields: ["delete_time"] },
      ]);
      expect(items.map(({ userGroupId }) => userGroupId)).toContain("a");
      const again = await environments().create(environment);
      expect((await trail.list([again], {}, FIRST)).items.map(({ userGroupId }) => userGroupId)).toEqual([undefined]);
      const all = await environments().findAll(environment);
      expect(all.map(({ number }) => number)).toEqual([again.number, environment.number]);
      const pages = [];
      for (let after: string | undefined = ""; after !== undefined; ) {
        const page = await trail.list(all, {}, { after, size: 2 });
        pages.push(...page.items);
        after = page.next;
      }
      expect(pages.map(({ id }) => id)).toEqual((await trail.list(all, {}, FIRST)).items.map(({ id }) => id));
      expect(pages).toHaveLength(items.length + 1);
    });
  });
}
