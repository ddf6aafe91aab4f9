import { waitFor } from "@user-group-service/testing/wait";
import { describe, expect, it } from "vitest";
import type { ApiTokenStore } from "../../../src/domain/api-token.ts";
import { type EnvironmentName, environmentPath, teamIdsOf } from "../../../src/domain/environment.ts";
import {
  EnvironmentBeingDeleted,
  EnvironmentExists,
  EnvironmentNotEmpty,
  EnvironmentNotFound,
  StoreUnavailable,
  TokenNotFound,
} from "../../../src/domain/errors.ts";
import { redisAuditTrail } from "../../../src/store/audit/audit-trail.ts";
import {
  CLEAR,
  CLOSE_EMPTY,
  type EnvironmentDeletionDeps,
  MARK,
  REMOVE_MEMBER,
} from "../../../src/store/environments/environment-deletion.ts";
import { MAKE } from "../../../src/store/environments/environments.ts";
import { ENVIRONMENTS_KEY, KEY, partitionPrefix } from "../../../src/store/keys.ts";
import { AUDIT, BY, testApiTokens, testEnvironmentDeletion, testEnvironments } from "../stores.ts";
import {
  byId,
  type ContractContext,
  contents,
  fails,
  heldUpAt,
  imported,
  newEnvironment,
  newGroup,
} from "./context.ts";

const NEW_TOKEN = { displayName: "x", role: "manage", expireTime: undefined, creator: "root" } as const;

const FIRST = { after: "", size: 1000 };

/** Deletions of environments. */
export function environmentDeletionContract({ client, store, admin, redis }: ContractContext): void {
  const environments = (worker = 0) => testEnvironments(client(worker));
  const tokens = (worker = 0) => testApiTokens(client(worker));
  const deletion = ({ worker = 0, ...given }: { worker?: number } & Partial<EnvironmentDeletionDeps> = {}) =>
    testEnvironmentDeletion(client(worker), given);
  const create = (partitions = 3) => environments().create({ name: newEnvironment().name, tag: undefined, partitions });
  const ids = (count: number) => Array.from({ length: count }, (_, i) => `group ${i}`);
  const isNowhere = async (name: EnvironmentName) => {
    await fails(environments(1).find(name), EnvironmentNotFound);
    await fails(environments(1).get(name), EnvironmentNotFound);
    await fails(deletion({ worker: 1 }).delete(name, true), EnvironmentNotFound);
  };

  describe("deletion of environments", () => {
    it("counts what they have, and leaves those alone that have groups unless it is by force", async () => {
      const environment = await create();
      await fails(deletion().delete(newEnvironment(), false), EnvironmentNotFound);
      for (const id of ids(7)) await store().getOrCreate(environment, newGroup(id));
      expect(await environments(1).countUserGroups(environment)).toBe(7);
      const before = await contents(redis(), environment);
      await fails(deletion().delete(environment, false), EnvironmentNotEmpty);
      expect(await contents(redis(), environment)).toEqual(before);
      for (const id of ids(7)) await admin().delete(environment, id);
      expect(await environments(1).countUserGroups(environment)).toBe(0);
      expect(await environments(1).get(environment)).toEqual(environment);
      expect(await deletion().delete(environment, false)).toBe(0);
      await isNowhere(environment);
    });

    it("opens what it had closed when a group comes meanwhile", async () => {
      const environment = await create(40);
      const counting = environments();
      const racing = {
        get: (name: EnvironmentName) => counting.get(name),
        countUserGroups: async () => {
          await store().getOrCreate(environment, newGroup("late"));
          return 0;
        },
      };
      await fails(deletion({ environments: racing }).delete(environment, false), EnvironmentNotEmpty);
      for (const id of ids(100)) expect((await store().getOrCreate(environment, newGroup(id))).created).toBe(true);
      expect(await counting.get(environment)).toEqual(environment);
    });

    it("deletes no group unless it is by force, whatever it was told of them", async () => {
      const environment = await create();
      const { group } = await store().getOrCreate(environment, newGroup("a"));
      // As if the group had come behind every check.
      const late = {
        get: async (name: EnvironmentName) => ({ ...(await environments().get(name)), deleteTime: 1 }),
        countUserGroups: async () => 0,
      };
      expect(await deletion({ environments: late }).delete(environment, false)).toBe(1);
      expect((await store().resolve(environment, group.token)).providedId).toBe("a");
      await fails(deletion().delete(environment, false), EnvironmentNotEmpty);
      expect(await deletion().delete(environment, true)).toBe(0);
      await isNowhere(environment);
    });

    it("goes by bounded steps, from the first of which on all tokens are dead and nothing is made", async () => {
      const environment = await create();
      const made = await Promise.all(ids(30).map((id) => store().getOrCreate(environment, newGroup(id))));
      const foreign = [imported("foreign 1"), imported("foreign 2")];
      await admin().import(environment, foreign);
      await store().rotate(environment, byId("group 1", { graceMs: 3_600_000 }));
      const apiToken = await tokens().create(environment, NEW_TOKEN);
      const steps = [await deletion({ maxGroups: 9 }).delete(environment, true)];
      expect(steps[0]).toBeGreaterThan(0);
      for (const worker of [0, 1]) {
        await fails(store({ worker }).getOrCreate(environment, newGroup("new")), EnvironmentNotFound);
        const [outcome] = await admin({ worker }).import(environment, [imported("new", { token: undefined })]);
        expect(outcome).toMatchObject({ outcome: "failed", error: { reason: "ENVIRONMENT_NOT_FOUND" } });
        await fails(environments(worker).find(environment), EnvironmentNotFound);
        await fails(environments(worker).ensureEnvironment(environment), EnvironmentNotFound);
        await fails(environments(worker).create(environment), EnvironmentBeingDeleted);
        await fails(tokens(worker).create(environment, NEW_TOKEN), EnvironmentNotFound);
        expect((await environments(worker).get(environment)).deleteTime).toBeGreaterThan(0);
      }
      expect((await tokens().list(environment, {}, FIRST)).items).toEqual([]);
      for (const { group } of made) await fails(store().resolve(environment, group.token), TokenNotFound);
      await fails(deletion().delete(environment, false), EnvironmentNotEmpty);
      for (let left = steps[0] ?? 0; left > 0; steps.push(left)) {
        left = await deletion({ worker: steps.length, maxGroups: 9 }).delete(environment, true);
      }
      expect(steps.length).toBeGreaterThan(3);
      expect(steps).toEqual([...steps].sort((one, other) => other - one));
      await isNowhere(environment);
      expect(apiToken.token).toMatch(/^ugk_/);
      for (const { token = "" } of foreign) await fails(store().resolve(environment, token), TokenNotFound);
      await waitFor("what is left of its partitions ends by itself", async () => {
        const left = Object.entries(await contents(redis(), environment));
        // The embedded store keeps sorted sets without members.
        const keys = left.filter(([, value]) => !Array.isArray(value) || value.length > 0).map(([key]) => key);
        return (await Promise.all(keys.map((key) => redis().pttl(key)))).every((ttl) => ttl > 0);
      });
    });

    it("goes on where a call was cut off", async () => {
      const environment = await create();
      for (const id of ids(5)) await store().getOrCreate(environment, newGroup(id));
      const apiTokens = [await tokens().create(environment, NEW_TOKEN), await tokens().create(environment, NEW_TOKEN)];
      let revoked = 0;
      const failing: Pick<ApiTokenStore, "list" | "revoke"> = {
        list: tokens().list,
        revoke: async (...args) => {
          if (revoked++ > 0) throw new Error("the process ends");
          return tokens().revoke(...args);
        },
      };
      const cutOff = deletion({ apiTokens: failing }).delete(environment, true);
      await expect(cutOff).rejects.toThrow("the process ends");
      await fails(environments().find(environment), EnvironmentNotFound);
      // What is listed behind its name, of which its path begins with.
      const { items } = await environments().list({ after: environment.name, size: 1 });
      expect(items[0]).toMatchObject({ name: environment.name, deleteTime: expect.any(Number) });
      expect(await deletion({ worker: 1 }).delete(environment, true)).toBe(0);
      await isNowhere(environment);
      expect(apiTokens).toHaveLength(2);
      expect(await redis().zscore(ENVIRONMENTS_KEY, `${environment.name}/`)).toBeNull();
    });

    it("is final until the environment is made anew, which those who know the old one do not reach", async () => {
      const environment = await create();
      const { name, tag } = environment;
      const numbers = new Set([environment.number]);
      await store().getOrCreate(environment, newGroup("a"));
      expect(await deletion().delete(environment, true)).toBe(0);
      await fails(environments().ensureEnvironment({ name, tag }), EnvironmentNotFound);
      for (const partitions of [5, 2, 3]) {
        const anew = await environments().create({ name, tag, partitions });
        expect(anew).toMatchObject({ partitions, deleteTime: undefined });
        await fails(environments(1).create({ name, tag }), EnvironmentExists);
        numbers.add(anew.number);
        const { group } = await store().getOrCreate(anew, newGroup("a"));
        await fails(store().getOrCreate(environment, newGroup("of the old one")), EnvironmentNotFound);
        // A step of a deletion that comes late, by one who knows the old one.
        for (let partition = 0; partition < 3; partition++) {
          const prefix = partitionPrefix(environment, partition);
          const first = String(environment.number * 2 ** 33 + partition);
          const closed = `${prefix}${KEY.closed}${first}`;
          const args = { key: prefix + KEY.ids, closed, closedMs: 60_000, prefix, first, most: 9 };
          expect(await client().change("test", CLEAR, args)).toEqual(["done", expect.any(String), "0"]);
        }
        expect((await store().resolve(anew, group.token)).teamId).toBe(group.teamId);
        expect((await store().getOrCreate(anew, newGroup("b"))).created).toBe(true);
        expect(await deletion().delete(anew, true)).toBe(0);
      }
      expect(numbers.size).toBe(4);
    });

    it("is done once, however many want it, and others make the environment meanwhile", async () => {
      const environment = await create();
      const { name, tag } = environment;
      await Promise.all(ids(20).map((id) => store().getOrCreate(environment, newGroup(id))));
      const tries = Array.from({ length: 6 }, async (_, worker) => {
        const left = await deletion({ worker, maxGroups: 3 })
          .delete(environment, true)
          .catch((error: Error) => error);
        await environments(worker)
          .ensureEnvironment({ name, tag })
          .catch(() => {});
        await Promise.allSettled(
          ids(20).map((id) => store({ worker }).getOrCreate(environment, newGroup(`${worker} ${id}`))),
        );
        return left;
      });
      for (const left of await Promise.all(tries)) {
        if (typeof left !== "number") expect(left).toBeInstanceOf(EnvironmentNotFound);
      }
      for (let left = 1; left > 0; ) {
        left = await deletion({ maxGroups: 3 })
          .delete(environment, true)
          .catch((error: unknown) => {
            if (error instanceof EnvironmentNotFound) return 0;
            throw error;
          });
      }
      expect(await environments().countUserGroups(environment)).toBe(0);
      await isNowhere(environment);
    });

    it("leaves one on the list that was made anew before its end was told", async () => {
      const isListed = async (name: EnvironmentName) =>
        (await redis().zscore(ENVIRONMENTS_KEY, environmentPath(name))) !== null;
      const environment = await create();
      const slow = heldUpAt(client(), REMOVE_MEMBER.name, () => environments(1).create(environment));
      expect(await deletion({ client: slow }).delete(environment, true)).toBe(0);
      expect(await isListed(environment)).toBe(true);
      expect(await deletion().delete(environment, true)).toBe(0);
      expect(await isListed(environment)).toBe(false);
      const path = environmentPath(environment);
      const late = heldUpAt(client(), MAKE.name, () => redis().zrem(ENVIRONMENTS_KEY, path));
      await testEnvironments(late).create(environment);
      expect(await isListed(environment)).toBe(true);
    });

    it("opens nothing that another deletion holds when Redis fails it", async () => {
      const environment = await create();
      const held = `${partitionPrefix(environment, 0)}${KEY.closed}${teamIdsOf(environment, 0).first}`;
      let isFirst = true;
      const slow = heldUpAt(client(), MARK.name, async () => {
        if (!isFirst) return;
        isFirst = false;
        await redis().pexpire(held, 50_000);
        let holds = 0;
        const failing = heldUpAt(client(1), CLOSE_EMPTY.name, async () => {
          if (holds++ === 2) throw new StoreUnavailable(undefined, "not_made");
        });
        await fails(deletion({ client: failing }).delete(environment, false), StoreUnavailable);
        expect(await redis().pttl(held)).toBeGreaterThan(60_000);
        for (const id of ids(9)) await fails(store().getOrCreate(environment, newGroup(id)), EnvironmentNotFound);
      });
      expect(await deletion({ client: slow }).delete(environment, false)).toBe(0);
      await isNowhere(environment);
    });

    it("leaves the audit trail, and says there who did it", async () => {
      const environment = await create();
      await store().getOrCreate(environment, newGroup("a"));
      await tokens().create(environment, NEW_TOKEN);
      await deletion().delete(environment, true, { ...BY, method: "DeleteEnvironment" });
      const former = await environments().findFormer(environment);
      expect(former).toMatchObject({ name: environment.name, partitions: 3 });
      const { items } = await redisAuditTrail(client(), AUDIT).list(former, {}, FIRST);
      expect(items.filter(({ method }) => method === "DeleteEnvironment")).toMatchObject([
        { changedFields: [], apiToken: undefined },
        { apiToken: { displayName: "x" } },
        { changedFields: ["delete_time"], apiToken: undefined },
      ]);
      expect(items.map(({ userGroupId }) => userGroupId)).toContain("a");
    });
  });
}
