import { timestampNow } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import type { ScriptedRedis } from "@user-group-service/redis";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { pause } from "@user-group-service/testing/wait";
import { expect, it } from "vitest";
import { ImportMode } from "../gen/usergroup/admin/v1/admin_service_pb.ts";
import { ImportResult_Outcome as Outcome } from "../gen/usergroup/admin/v1/user_group_pb.ts";
import { ADMIN_ENV, adminOf, issueToken } from "./support/admin.ts";
import { describeWithRedis, newOperator, newRedis, newServer } from "./support/opened.ts";
import { failureOf, grpcClients } from "./support/rpc.ts";
import { expectSound } from "./support/stored-groups.ts";

const COUNT = 200;
const ROUNDS = 4;
const { UPSERT } = ImportMode;

/** What is known of one group. */
interface Known {
  readonly id: string;
  /** Tokens that an acknowledged deletion or revocation ended, or an import that came after them. */
  readonly dead: Set<string>;
}

describeWithRedis.each(RUNTIMES)("a worker on %s that is killed in the middle of things", (runtime) => {
  it("leaves every group whole, and a repeated import finishes what it began", { timeout: 180_000 }, async () => {
    const redis = await newRedis();
    const survivor = await newServer({ redisUrl: redis.url, env: ADMIN_ENV });
    const { token: adminToken } = await issueToken(survivor, "admin");
    const operator = newOperator(redis) as ScriptedRedis;
    const sound = () => expectSound(operator, { name: survivor.environment, tag: "Customer", partitions: 64 });
    const lasting = { admin: adminOf(survivor.url, adminToken), ...grpcClients(survivor) };
    const all: Known[] = Array.from({ length: COUNT }, (_, i) => ({ id: `group ${i}`, dead: new Set() }));

    /** How many calls no answer came to. */
    let lost = 0;
    for (let round = 0; round < ROUNDS; round++) {
      const tokenOf = (i: number) => `killed.${round}.${i}.${runtime}`;
      /** What was revoked since keeps its fresh token. */
      const snapshotTime = timestampNow();
      const worker = await newServer({ runtime, redisUrl: redis.url, like: survivor, env: ADMIN_ENV });
      const admin = adminOf(worker.url, adminToken);
      let isKilled = false;
      let begun = 0;
      let acknowledged = 0;
      /** How many imports have begun. */
      let imported = 0;
      /** A call that the worker may not live to answer; false when it did not. */
      const attempt = async (call: () => Promise<unknown>): Promise<boolean> => {
        if (isKilled) return false;
        begun++;
        try {
          await call();
          acknowledged++;
          return true;
        } catch (error) {
          const { code } = ConnectError.from(error);
          // What a killed worker leaves a caller with; and it was there to be deleted once.
          expect([Code.Unavailable, Code.Aborted, Code.Unknown, Code.Internal, Code.Canceled, Code.NotFound]).toContain(
            code,
          );
          return false;
        }
      };
      const imports = async () => {
        for (let start = 0; !isKilled; start = (start + 40) % COUNT) {
          const userGroups = all.slice(start, start + 40).map(({ id }, i) => {
            return { providedId: id, token: tokenOf(start + i), name: `round ${round}`, properties: { round } };
          });
          imported++;
          await attempt(() => admin.importUserGroups({ userGroups, mode: UPSERT, snapshotTime }));
        }
      };
      const others = async () => {
        for (let i = 0; !isKilled; i++) {
          const { id, dead } = all[(i * 7) % COUNT] as Known;
          const before = await lasting.groups.getUserGroup({ userGroupId: id });
          const token = before.userGroup?.token ?? "";
          const call = i % 2 === 0 ? admin.deleteUserGroup : admin.revokeUserGroupTokens;
          // It may have been given another token meanwhile: that one may live.
          const isDone = await attempt(() => call({ userGroupId: id }));
          if (isDone) dead.add(token);
        }
      };
      const work = Promise.all([imports(), others()]);
      while (acknowledged < 6 + round * 7) await pause(1);
      // Somewhere in the next import, or in what goes on beside it.
      const before = imported;
      while (imported === before) await pause(1);
      await pause(round);
      worker.signal("SIGKILL");
      isKilled = true;
      await work;
      await worker.exited();
      lost += begun - acknowledged;

      // Nothing is half made, whatever the worker was at; what was acknowledged is dead, and what is not dead is of its group.
      const { strayEntries } = await sound();
      expect(strayEntries).toBeLessThanOrEqual(COUNT);
      for (const { dead } of all) {
        for (const token of dead) {
          const isReborn = await lasting.viewers.resolveViewer({ token }).catch(() => undefined);
          // An import of this round may have given it again to a group that was deleted, and to none else.
          if (isReborn !== undefined) expect(token.startsWith(`killed.${round}.`)).toBe(true);
        }
      }

      // The same import, repeated by another worker, finishes it; once more, it changes nothing.
      const outcomes: Outcome[][] = [];
      for (let times = 0; times < 2; times++) {
        const userGroups = all.map(({ id }, i) => {
          return { providedId: id, token: tokenOf(i), name: `round ${round}`, properties: { round } };
        });
        const { results } = await lasting.admin.importUserGroups({ userGroups, mode: UPSERT, snapshotTime });
        outcomes.push(results.map(({ outcome }) => outcome));
      }
      expect(outcomes[0]).not.toContain(Outcome.FAILED);
      for (const outcome of outcomes[1] ?? []) expect([Outcome.UNCHANGED, Outcome.TOKEN_NEWER]).toContain(outcome);
      const { ids, foreign } = await sound();
      expect(ids).toHaveLength(COUNT);
      const check = async ({ id }: Known, i: number) => {
        const { userGroup } = await lasting.groups.getUserGroup({ userGroupId: id });
        const viewer = await lasting.viewers.resolveViewer({ token: userGroup?.token ?? "" });
        expect([viewer.providedId, viewer.name]).toEqual([id, `round ${round}`]);
        // One that was revoked after it was imported keeps its fresh token.
        expect(userGroup?.token === tokenOf(i)).toBe(foreign.includes(id));
        if (userGroup?.token !== tokenOf(i)) {
          const gone = await failureOf(lasting.viewers.resolveViewer({ token: tokenOf(i) }));
          expect(gone.reason).toBe("TOKEN_NOT_FOUND");
        }
      };
      await Promise.all(all.map(check));
      // In the next round tokens that ended may not come back by anything.
      for (const { dead } of all)
        for (const token of [...dead]) if (token.startsWith(`killed.${round}.`)) dead.delete(token);
    }
    expect(lost).toBeGreaterThan(0);
  });
});
