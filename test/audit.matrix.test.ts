import { timestampDate, timestampFromMs } from "@bufbuild/protobuf/wkt";
import { expect, it } from "vitest";
import { Role } from "../gen/usergroup/admin/v1/api_token_pb.ts";
import type { AuditEvent } from "../gen/usergroup/admin/v1/audit_event_pb.ts";
import { ApiEnvironmentTag } from "../gen/usergroup/v1/user_group_pb.ts";
import { newApiToken, newUserGroupToken } from "../src/domain/token.ts";
import {
  ADMIN_CLIENTS,
  adminOf,
  auditEventsOf,
  bearer,
  customerOf,
  issueToken,
  newName,
  suiteAdmins,
} from "./support/admin.ts";
import { CLIENTS } from "./support/clients.ts";
import { describeClients, describeServers, newId } from "./support/matrix.ts";
import { metricsOf } from "./support/operations.ts";
import { failureOf, grpcClients } from "./support/rpc.ts";

const plain = ({ $typeName, id, createTime, ...rest }: AuditEvent) => rest;

const STATIC = { actorId: "static-customer", actorDisplayName: "customer", role: "manage" };
const NO_API_TOKEN = { webhookId: "", apiTokenId: "", apiTokenRole: "", apiTokenDisplayName: "" };
const ROOT = { actorId: "root", actorDisplayName: "root", role: "root" };

describeClients(CLIENTS, (server, { open }) => {
  it("the audit trail contains the actor, the changed fields and the request id of each change", async () => {
    const client = open(server.url);
    try {
      const headers = bearer(server.tokens.customer);
      const userGroupId = newId();
      const before = Date.now();
      const made = await client.getUserGroup({ userGroupId, properties: { secret: "one" } }, headers);
      const again = await client.getUserGroup({ userGroupId, name: "x" }, headers);
      expect(again.newUserGroup).toBe(false);
      const given = { userGroupId, name: "secret two", mapping: { secret: "three" } };
      const updated = await client.updateUserGroup(given, headers);
      const own = { ...headers, "x-request-id": `own-${crypto.randomUUID()}` };
      const rotated = await client.rotateUserGroupToken({ currentToken: made.group.token }, own);
      const events = await auditEventsOf(server, { userGroupId });
      const common = { ...STATIC, ...NO_API_TOKEN, userGroupId, peerAddress: "127.0.0.1" };
      expect(events.map(plain)).toEqual([
        { ...common, method: "RotateUserGroupToken", changedFields: ["token"], requestId: own["x-request-id"] },
        { ...common, method: "UpdateUserGroup", changedFields: ["name", "mapping"], requestId: updated.requestId },
        {
          ...common,
          method: "GetUserGroup",
          changedFields: ["name", "mapping", "properties", "token"],
          requestId: made.requestId,
        },
      ]);
      for (const { createTime } of events) {
        const time = createTime ? timestampDate(createTime).getTime() : 0;
        expect(Math.abs(time - before)).toBeLessThan(60_000);
      }
      const text = JSON.stringify(events.map(plain));
      for (const secret of ["secret", made.group.token, rotated.group.token]) expect(text).not.toContain(secret);
    } finally {
      client.close();
    }
  });
});

describeClients(ADMIN_CLIENTS, (server, options) => {
  const admin = suiteAdmins(server, options);

  it("the audit trail contains changes of environments and API tokens", async () => {
    const environment = { name: newName(), tag: ApiEnvironmentTag.TESTING };
    const root = admin();
    const call = (requestId: string) => ({ headers: { "x-request-id": requestId } });
    await root.createEnvironment({ environment }, call("r1"));
    const values = { displayName: "secret name", role: Role.ADMIN };
    const { apiToken, token } = await root.createApiToken({ environment, ...values }, call("r2"));
    const id = apiToken?.id ?? "";
    const other = await admin(token).createApiToken({ displayName: "other", role: Role.READ }, call("r3"));
    await admin(token).revokeApiToken({ apiTokenId: other.apiToken?.id ?? "" }, call("r4"));
    await failureOf(admin(token).revokeApiToken({ apiTokenId: other.apiToken?.id ?? "" }));
    await failureOf(root.createEnvironment({ environment }));
    const { auditEvents, nextPageToken } = await admin(token).listAuditEvents({});
    expect(nextPageToken).toBe("");
    const common = { userGroupId: "", changedFields: [], peerAddress: "127.0.0.1" };
    const own = { ...common, actorId: id, actorDisplayName: "secret name", role: "admin" };
    const otherToken = {
      webhookId: "",
      apiTokenId: other.apiToken?.id,
      apiTokenRole: "read",
      apiTokenDisplayName: "other",
    };
    const itself = { webhookId: "", apiTokenId: id, apiTokenRole: "admin", apiTokenDisplayName: "secret name" };
    expect(auditEvents.map(plain)).toEqual([
      { ...own, ...otherToken, method: "RevokeApiToken", requestId: "r4" },
      { ...own, ...otherToken, method: "CreateApiToken", requestId: "r3" },
      { ...common, ...ROOT, ...itself, method: "CreateApiToken", requestId: "r2" },
      { ...common, ...ROOT, ...NO_API_TOKEN, method: "CreateEnvironment", requestId: "r1" },
    ]);
    expect((await root.listAuditEvents({ environment })).auditEvents).toEqual(auditEvents);
    expect(JSON.stringify(auditEvents.map(plain))).not.toContain(token.slice(4, 20));
  });
});

describeServers((server) => {
  it("the audit trail contains the id and name of the API token of a change, even after the API token is revoked", async () => {
    const { token, id } = await issueToken(server, "manage");
    const userGroupId = newId();
    await grpcClients(server, token).groups.getUserGroup({ userGroupId });
    await adminOf(server.url).revokeApiToken({ environment: customerOf(server), apiTokenId: id });
    const actor = { actorId: id, actorDisplayName: "of role manage", role: "manage" };
    expect(await auditEventsOf(server, { userGroupId })).toMatchObject([{ ...actor, method: "GetUserGroup" }]);
    expect(await auditEventsOf(server, { actorId: id })).toMatchObject([{ userGroupId }]);
  });

  it("the audit trail records that the service created the environments of API_TOKENS at its start", async () => {
    const made = await auditEventsOf(server, { actorId: "service" });
    expect(made.map(plain)).toMatchObject([
      {
        method: "CreateEnvironment",
        role: "service",
        requestId: "",
        peerAddress: "",
        userGroupId: "",
        apiTokenId: "",
      },
    ]);
  });

  it("ListAuditEvents filters by group, caller, RPC and time, and returns pages", async () => {
    const { token, id } = await issueToken(server, "manage");
    const { groups } = grpcClients(server, token);
    const ids = Array.from({ length: 6 }, newId);
    for (const userGroupId of ids) await groups.getUserGroup({ userGroupId });
    const all = await auditEventsOf(server, { actorId: id });
    expect(all.map(({ userGroupId }) => userGroupId).sort()).toEqual([...ids].sort());
    expect(await auditEventsOf(server, { actorId: id, pageSize: 4 })).toEqual(all);
    const at = (event: AuditEvent | undefined) => (event?.createTime ? timestampDate(event.createTime).getTime() : 0);
    const middle = at(all[3]);
    for (const [filter, isWanted] of [
      [{ startTime: timestampFromMs(middle) }, (event: AuditEvent) => at(event) >= middle],
      [{ endTime: timestampFromMs(middle) }, (event: AuditEvent) => at(event) < middle],
      [{ method: "GetUserGroup" }, () => true],
      [{ method: "UpdateUserGroup" }, () => false],
      [{ userGroupId: ids[0] }, (event: AuditEvent) => event.userGroupId === ids[0]],
    ] as const) {
      expect(await auditEventsOf(server, { actorId: id, ...filter })).toEqual(all.filter(isWanted));
    }
  });

  it("the audit trail contains no calls that fail authentication or authorization, but the metrics count these calls", async () => {
    const labels = { grpc_method: "UpdateUserGroup", protocol: "grpc" };
    const denials = async () => {
      const value = await metricsOf(server);
      const of = (grpc_code: string) =>
        value("grpc_server_handled_total", { ...labels, grpc_code }) ?? expect.fail("no such series");
      return [of("Unauthenticated"), of("PermissionDenied")] as const;
    };
    const before = await denials();
    const userGroupId = newId();
    await grpcClients(server).groups.getUserGroup({ userGroupId });
    const { token } = await issueToken(server, "read");
    for (const wrong of ["x".repeat(20), newApiToken(), newUserGroupToken(), token]) {
      await failureOf(grpcClients(server, wrong).groups.updateUserGroup({ userGroupId, name: "x" }));
    }
    // Suites of other files call this server concurrently, so the counts may be higher.
    const after = await denials();
    expect(after[0]).toBeGreaterThanOrEqual(before[0] + 3);
    expect(after[1]).toBeGreaterThanOrEqual(before[1] + 1);
    expect(await auditEventsOf(server, { userGroupId })).toMatchObject([{ method: "GetUserGroup" }]);
  });

  it("ListAuditEvents returns only events of the caller's environment if the caller has role admin", async () => {
    const { token } = await issueToken(server, "admin");
    const own = adminOf(server.url, token);
    const { auditEvents } = await own.listAuditEvents({ pageSize: 1 });
    expect(auditEvents.length).toBe(1);
    const other = { name: server.environment, tag: ApiEnvironmentTag.TESTING };
    const foreign = { code: "PermissionDenied", reason: "OTHER_ENVIRONMENT" };
    expect(await failureOf(own.listAuditEvents({ environment: other }))).toEqual(foreign);
    const unnamed = { code: "InvalidArgument", reason: "VALIDATION_FAILED" };
    expect(await failureOf(adminOf(server.url).listAuditEvents({}))).toEqual(unnamed);
    const { groups } = grpcClients(server, server.tokens.testing);
    const userGroupId = newId();
    await groups.getUserGroup({ userGroupId });
    expect(await auditEventsOf(server, { userGroupId })).toEqual([]);
    expect((await adminOf(server.url).listAuditEvents({ environment: other, userGroupId })).auditEvents).toHaveLength(
      1,
    );
  });
});
