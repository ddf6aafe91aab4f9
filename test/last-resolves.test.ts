import { http1 } from "@user-group-service/testing/http";
import { expect, it } from "vitest";
import { ADMIN_ENV, adminOf, bearer, customerOf, issueToken } from "./support/admin.ts";
import { describeWithRedis, newServer, redisUrl } from "./support/opened.ts";
import { grpcClients } from "./support/rpc.ts";

describeWithRedis("last resolves", () => {
  it("the day of the last resolve is stored when a worker resolves a viewer, not when an operator looks up a group, and survives a restart", async () => {
    const env = { ...ADMIN_ENV, WORKERS: "2" };
    const server = await newServer({ redisUrl, env });
    const { groups, viewers } = grpcClients(server);
    const newToken = async (userGroupId: string) => (await groups.getUserGroup({ userGroupId })).userGroup?.token ?? "";
    const environment = customerOf(server);
    const admin = adminOf(server.url);
    const dayOf = async (userGroupId: string, by = admin) =>
      (await by.lookupUserGroup({ environment, userGroupId })).userGroup?.lastResolveDate;

    const from = new Date().toISOString().slice(0, 10);
    await viewers.resolveViewer({ token: await newToken("rpc") });
    const headers = { ...bearer(server.tokens.customer), "content-type": "application/json" };
    const body = JSON.stringify({ token: await newToken("rest") });
    expect((await http1(server.url, "/api/viewer", { method: "POST", headers, body })).status).toBe(200);
    await newToken("session");
    const group = { case: "userGroupId", value: "session" } as const;
    const { session } = await viewers.createViewerSession({ group, audience: "page" });
    await viewers.resolveViewer({ token: session });
    await admin.lookupUserGroupToken({ environment, token: await newToken("operator") });
    const suspended = await newToken("suspended");
    const ofEnvironment = adminOf(server.url, (await issueToken(server, "admin")).token);
    await ofEnvironment.suspendUserGroup({ userGroupId: "suspended" });
    await expect(viewers.resolveViewer({ token: suspended })).rejects.toThrow();
    await newToken("unused");
    expect(await dayOf("rpc")).toBe("");
    // The worker writes the recorded days when it shuts down.
    expect(await server.stop()).toBe(0);

    const next = await newServer({ redisUrl, like: server, env: ADMIN_ENV });
    const after = adminOf(next.url);
    const days = [from, new Date().toISOString().slice(0, 10)];
    for (const id of ["rpc", "rest", "session"]) expect(days).toContain(await dayOf(id, after));
    for (const id of ["operator", "suspended", "unused"]) expect(await dayOf(id, after)).toBe("");
    const { userGroups } = await after.listUserGroups({ environment });
    expect(days).toContain(userGroups.find(({ providedId }) => providedId === "rest")?.lastResolveDate);
  });
});
