import { Random } from "@user-group-service/testing/random";
import { repeat } from "@user-group-service/testing/repeat";
import { waitFor } from "@user-group-service/testing/wait";
import { expect, it, onTestFailed } from "vitest";
import { Role } from "../gen/usergroup/admin/v1/api_token_pb.ts";
import { ADMIN_ENV, adminOf, auditEventsOf, customerOf } from "./support/admin.ts";
import { describeWithRedis, newRedis, newServer } from "./support/opened.ts";
import { waitUntilReady } from "./support/operations.ts";
import { DURABLE } from "./support/redis.ts";
import { failureOf, grpcClients } from "./support/rpc.ts";
import type { TestServer } from "./support/server.ts";

interface Former {
  readonly teamIds: ReadonlySet<bigint>;
  readonly tokens: readonly string[];
  readonly sessions: readonly string[];
  readonly apiToken: string;
  readonly events: ReadonlySet<string>;
}

describeWithRedis("deletion and creation of an environment under load", () => {
  it.each([1, 2])(
    "the recreated environment is usable immediately and has no old data, even if Redis or a worker is killed during the deletion (seed %i)",
    async (seed) => {
      const random = new Random(seed);
      const redis = await newRedis(DURABLE);
      // Redis writes each change to disk (`DURABLE`). On a busy machine, a write can take seconds.
      const env = { ...ADMIN_ENV, REDIS_TIMEOUT: "10s" };
      const start = (like?: TestServer) => newServer({ redisUrl: redis.url, env, ...(like && { like }) });
      const steady = await start();
      let other = await start(steady);
      onTestFailed(() => {
        const failures = [steady, other].flatMap((server) => server.log().filter(({ msg }) => msg === "call failed"));
        console.error(failures.slice(-5));
      });
      const environment = customerOf(steady);
      const root = () => adminOf(steady.url);

      const fill = async (): Promise<Former> => {
        const { groups, viewers } = grpcClients(steady);
        const issued = await root().createApiToken({ environment, displayName: "x", role: Role.ADMIN });
        const teamIds = new Set<bigint>();
        const tokens: string[] = [];
        const sessions: string[] = [];
        for (let i = 0; i < 40; i++) {
          const userGroupId = `group ${i}`;
          const { userGroup } = await groups.getUserGroup({ userGroupId });
          teamIds.add(userGroup?.teamId ?? 0n);
          tokens.push(userGroup?.token ?? "");
          if (i % 4 > 0) continue;
          const target = { case: "userGroupId", value: userGroupId } as const;
          const made = await groups.rotateUserGroupToken({ group: target, previousTokenTtl: { seconds: 3600n } });
          tokens.push(made.userGroup?.token ?? "");
          sessions.push((await viewers.createViewerSession({ group: target, audience: "page" })).session);
        }
        const events = new Set((await auditEventsOf(steady)).map(({ id }) => id));
        return { teamIds, tokens, sessions, apiToken: issued.token, events };
      };

      const load = repeat(
        Array.from({ length: 6 }, (_, i) => async () => {
          const { groups } = grpcClients(i % 2 === 0 ? steady : other);
          const userGroupId = `group ${Math.floor(Math.random() * 60)}`;
          await groups.getUserGroup({ userGroupId }).catch(() => {});
          await groups.updateUserGroup({ userGroupId, name: `${i}` }).catch(() => {});
        }),
      );
      const kill = async () => {
        if (random.pick([true, false])) {
          await redis.kill();
          await redis.restart();
        } else {
          other.signal("SIGKILL");
          await other.exited();
          other = await start(steady);
        }
        await waitUntilReady(steady);
      };

      for (let round = 0; round < 4; round++) {
        const former = await fill();
        const deleting = (async () => {
          for (;;) {
            const answer = await root()
              .deleteEnvironment({ environment, force: true })
              .catch((error: unknown) => String(error));
            if (typeof answer === "string" ? answer.includes("not_found") : answer.done) return;
          }
        })();
        await kill();
        await deleting;
        await waitFor("the environment is created again", () =>
          root()
            .createEnvironment({ environment })
            .then(
              () => true,
              async (error: unknown) => /already_exists/.test(String(error)),
            ),
        );
        for (const server of [steady, other]) {
          const { groups, viewers } = grpcClients(server);
          const { userGroup } = await groups.getUserGroup({ userGroupId: `new of ${server.pid}` });
          expect(former.teamIds).not.toContain(userGroup?.teamId);
          for (let i = 0; i < 40; i++) {
            const { userGroup: again } = await groups.getUserGroup({ userGroupId: `group ${i}` });
            expect(former.teamIds).not.toContain(again?.teamId);
            expect(former.tokens).not.toContain(again?.token);
          }
          for (const token of former.tokens)
            expect((await failureOf(viewers.resolveViewer({ token }))).reason).toBe("TOKEN_NOT_FOUND");
          for (const token of former.sessions)
            expect((await failureOf(viewers.resolveViewer({ token }))).code).toBe("NotFound");
          expect((await failureOf(adminOf(server.url, former.apiToken).getCaller({}))).code).toBe("Unauthenticated");
        }
        const next = await root().createApiToken({ environment, displayName: "next", role: Role.ADMIN });
        const { auditEvents } = await adminOf(steady.url, next.token).listAuditEvents({ pageSize: 1000 });
        for (const { id } of auditEvents) expect(former.events).not.toContain(id);
        expect(auditEvents.length).toBeGreaterThan(0);
      }
      await load.end();
    },
  );
});
