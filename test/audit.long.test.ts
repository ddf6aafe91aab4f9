import { RUNTIMES } from "@user-group-service/testing/runtime";
import { waitFor } from "@user-group-service/testing/wait";
import { expect, it } from "vitest";
import { ADMIN_ENV, auditEventsOf, bearer } from "./support/admin.ts";
import { newId } from "./support/matrix.ts";
import { newServer, redisUrl } from "./support/opened.ts";
import { metricsTextOf } from "./support/operations.ts";
import { grpcClients } from "./support/rpc.ts";

it("the audit trail keeps at least AUDIT_MAX_EVENTS updates, and dropped updates are counted and logged", async () => {
  const server = await newServer({ redisUrl, env: { ...ADMIN_ENV, AUDIT_MAX_EVENTS: "1000" } });
  const { groups } = grpcClients(server);
  await groups.getUserGroup({ userGroupId: "a" });
  await groups.rotateUserGroupToken({ group: { case: "userGroupId", value: "a" } });
  for (let i = 0; i < 14; i++) {
    const updates = Array.from({ length: 100 }, (_, j) =>
      groups.updateUserGroup({ userGroupId: "a", name: `${i} ${j}` }),
    );
    await Promise.all(updates);
  }
  const events = await auditEventsOf(server, { userGroupId: "a" });
  const methods = events.map(({ method }) => method);
  const updates = methods.filter((method) => method === "UpdateUserGroup").length;
  expect(updates).toBeGreaterThanOrEqual(1000);
  expect(updates).toBeLessThan(1400);
  expect(methods.slice(updates)).toEqual(["RotateUserGroupToken", "GetUserGroup"]);
  expect(await metricsTextOf(server)).toMatch(new RegExp(`^ugs_audit_dropped_total ${1400 - updates}$`, "m"));
  const warnings = server.log().filter(({ msg }) => msg.startsWith("the audit trail drops updates"));
  expect(warnings).toMatchObject([{ level: "warn", environment: `${server.environment}/Customer` }]);
});

it("the audit trail drops events after AUDIT_RETENTION", async () => {
  const server = await newServer({ redisUrl, env: { ...ADMIN_ENV, AUDIT_RETENTION: "3s" } });
  const { groups } = grpcClients(server);
  await groups.getUserGroup({ userGroupId: "a" });
  // The retention period is short. On a slow machine, an event may be removed before the test lists the events. So
  // repeat the update until an event is listed.
  await waitFor("the audit trail contains an event", async () => {
    await groups.updateUserGroup({ userGroupId: "a", name: newId() });
    return (await auditEventsOf(server, { userGroupId: "a" })).length > 0;
  });
  await waitFor("the audit trail contains no event", async () => (await auditEventsOf(server)).length === 0);
});

it.each(RUNTIMES)(
  "the audit trail contains the client address that a trusted proxy reports, and no address that a client claims, on %s",
  async (runtime) => {
    const trusted = { ...ADMIN_ENV, TRUSTED_PROXIES: "127.0.0.0/8, 2001:db8::/32" };
    for (const [env, peerAddress] of [
      [trusted, "198.51.100.7"],
      [ADMIN_ENV, "127.0.0.1"],
    ] as const) {
      const server = await newServer({ runtime, env });
      const headers = { ...bearer(server.tokens.customer), "x-forwarded-for": "1.2.3.4, 198.51.100.7, 2001:db8::1" };
      const byRest = newId();
      await fetch(`${server.url}/api/user?user_group_id=${encodeURIComponent(byRest)}`, { headers });
      const byGrpc = newId();
      await grpcClients(server).groups.getUserGroup({ userGroupId: byGrpc }, { headers });
      for (const userGroupId of [byRest, byGrpc]) {
        expect(await auditEventsOf(server, { userGroupId })).toMatchObject([{ peerAddress }]);
      }
    }
  },
);
