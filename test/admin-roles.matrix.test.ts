import type { DescMethod, DescMethodStreaming, DescMethodUnary, Message } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { forSuite } from "@user-group-service/testing/opened";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { beforeAll, describe, expect, it } from "vitest";
import { ErrorInfoSchema } from "../gen/google/rpc/error_details_pb.ts";
import { ViewerService } from "../gen/usergroup/v1/viewer_service_pb.ts";
import { newUserGroupToken } from "../src/domain/token.ts";
import { VERBS } from "../src/rest/user.ts";
import { ACCESS } from "../src/rpc/access.ts";
import { ADMIN_CLIENTS, ADMIN_TOKEN, bearer, issueToken, openAdminTransport } from "./support/admin.ts";
import { clientsOfRun } from "./support/matrix.ts";
import { sharedServer } from "./support/opened.ts";
import { failureOf, grpcClients } from "./support/rpc.ts";

/** Maps each method to its required role. Does not use `ACCESS`, so that the test finds a wrong role in `ACCESS`. */
const NEEDED: { readonly [method: string]: "open" | "any" | "resolve" | "read" | "manage" | "admin" | "root" } = {
  "usergroup.v1.UserGroupService.GetUserGroup": "read",
  "usergroup.v1.UserGroupService.UpdateUserGroup": "manage",
  "usergroup.v1.UserGroupService.RotateUserGroupToken": "manage",
  "usergroup.v1.ViewerService.ResolveViewer": "resolve",
  "usergroup.v1.ViewerService.CreateViewerSession": "resolve",
  "usergroup.admin.v1.AdminService.CreateEnvironment": "root",
  "usergroup.admin.v1.AdminService.GetEnvironment": "admin",
  "usergroup.admin.v1.AdminService.ListEnvironments": "root",
  "usergroup.admin.v1.AdminService.DeleteEnvironment": "root",
  "usergroup.admin.v1.AdminService.GetCaller": "any",
  "usergroup.admin.v1.AdminService.CreateApiToken": "admin",
  "usergroup.admin.v1.AdminService.ListApiTokens": "admin",
  "usergroup.admin.v1.AdminService.LookupApiToken": "admin",
  "usergroup.admin.v1.AdminService.UpdateApiToken": "admin",
  "usergroup.admin.v1.AdminService.RotateApiToken": "admin",
  "usergroup.admin.v1.AdminService.RevokeApiToken": "admin",
  "usergroup.admin.v1.AdminService.ListUserGroups": "admin",
  "usergroup.admin.v1.AdminService.LookupUserGroup": "admin",
  "usergroup.admin.v1.AdminService.LookupUserGroupToken": "admin",
  "usergroup.admin.v1.AdminService.DeleteUserGroup": "admin",
  "usergroup.admin.v1.AdminService.SuspendUserGroup": "admin",
  "usergroup.admin.v1.AdminService.ResumeUserGroup": "admin",
  "usergroup.admin.v1.AdminService.RevokeUserGroupTokens": "admin",
  "usergroup.admin.v1.AdminService.RevokeViewerSessions": "admin",
  "usergroup.admin.v1.AdminService.ImportUserGroups": "admin",
  "usergroup.admin.v1.AdminService.ExportUserGroups": "admin",
  "usergroup.admin.v1.AdminService.ListAuditEvents": "admin",
  "usergroup.admin.v1.AdminService.WatchEvents": "admin",
  "usergroup.admin.v1.AdminService.ListTokenKeys": "root",
  "usergroup.admin.v1.AdminService.ReencryptUserGroupTokens": "root",
  "usergroup.admin.v1.AdminService.RetireTokenKey": "root",
  "usergroup.admin.v1.AdminService.AcceptStoreData": "root",
  "usergroup.admin.v1.AdminService.ListSigningKeys": "admin",
  "usergroup.admin.v1.AdminService.RotateSigningKey": "root",
  "usergroup.admin.v1.AdminService.CreateWebhook": "admin",
  "usergroup.admin.v1.AdminService.GetWebhook": "admin",
  "usergroup.admin.v1.AdminService.ListWebhooks": "admin",
  "usergroup.admin.v1.AdminService.UpdateWebhook": "admin",
  "usergroup.admin.v1.AdminService.DeleteWebhook": "admin",
  "usergroup.admin.v1.AdminService.RotateWebhookSecret": "admin",
  "usergroup.admin.v1.AdminService.TestWebhook": "admin",
  "usergroup.admin.v1.AdminService.ListWebhookDeliveries": "admin",
  "usergroup.admin.v1.AdminService.RedeliverWebhook": "admin",
  "usergroup.admin.v1.AdminService.GetMetricsHistory": "admin",
  "grpc.health.v1.Health.Check": "open",
  "grpc.health.v1.Health.List": "open",
  "grpc.health.v1.Health.Watch": "open",
  "grpc.reflection.v1.ServerReflection.ServerReflectionInfo": "open",
  "grpc.reflection.v1alpha.ServerReflection.ServerReflectionInfo": "open",
};

const nameOf = ({ parent, name }: { parent: { typeName: string }; name: string }) => `${parent.typeName}.${name}`;

const CALLERS = ["nobody", "resolve", "read", "manage", "API_TOKENS", "admin", "root"] as const;
type Caller = (typeof CALLERS)[number];
const RANKS = ["resolve", "read", "manage", "admin", "root"];
const roleOf = (caller: Caller) => (caller === "API_TOKENS" ? "manage" : caller);

/**
 * Returns the expected result of an empty request. If the role does not suffice, the result is the reason of the
 * rejection. If the role suffices, the result is `in`. In this case, the call may still fail for another reason.
 */
function verdict(caller: Caller, method: string): string {
  const needed = NEEDED[method] ?? "unknown";
  if (needed === "open") return "in";
  if (caller === "nobody") return "API_TOKEN_MISSING";
  if (needed === "any") return "in";
  if (RANKS.indexOf(roleOf(caller)) < RANKS.indexOf(needed)) return `ROLE_TOO_LOW ${needed}`;
  if (caller === "root" && RANKS.indexOf(needed) < RANKS.indexOf("admin")) return "ENVIRONMENT_TOKEN_REQUIRED";
  return "in";
}

const DENIED = new Set([Code.Unauthenticated, Code.PermissionDenied]);

/** Returns the actual result of an empty request, in the format of `verdict`. */
function verdictOf(thrown: unknown): string {
  const error = ConnectError.from(thrown);
  if (!DENIED.has(error.code)) return "in";
  const info = error.findDetails(ErrorInfoSchema)[0];
  const needed = info?.metadata["required_role"];
  if (needed !== undefined) expect(error.rawMessage).toContain(needed === "root" ? "ADMIN_TOKEN" : needed);
  return [info?.reason, needed].filter((part) => part !== undefined).join(" ");
}

it("the table of required roles contains every method", () => {
  expect([...ACCESS.keys()].map(nameOf).sort()).toEqual(Object.keys(NEEDED).sort());
});

describe.each(RUNTIMES)("roles on %s", (runtime) => {
  const server = sharedServer({ runtime });
  const tokens = {} as { [caller in Caller]: string | undefined };

  beforeAll(async () => {
    for (const role of ["resolve", "read", "manage", "admin"] as const) {
      tokens[role] = (await issueToken(server, role)).token;
    }
    Object.assign(tokens, { nobody: undefined, API_TOKENS: server.tokens.customer, root: ADMIN_TOKEN });
  });

  const headersOf = (caller: Caller) => {
    const token = tokens[caller];
    return token === undefined ? {} : bearer(token);
  };

  describe.each(clientsOfRun(ADMIN_CLIENTS))("over $name", (options) => {
    const opened = forSuite(
      // Bidirectional streams need HTTP/2.
      () => openAdminTransport(server.url, { ...options, httpVersion: "2" }),
      ({ close }) => close(),
    );

    async function attempt(method: DescMethod, caller: Caller): Promise<string> {
      const headers = headersOf(caller);
      const end = new AbortController();
      try {
        if (method.methodKind === "unary") {
          await opened.transport.unary(method as DescMethodUnary, undefined, undefined, headers, {});
        } else {
          const requests = (async function* (): AsyncIterable<Message> {
            if (method.methodKind === "server_streaming") yield {} as Message;
          })();
          const streaming = method as DescMethodStreaming;
          const answer = await opened.transport.stream(streaming, end.signal, undefined, headers, requests as never);
          for await (const _ of answer.message) break;
        }
        return "in";
      } catch (error) {
        return verdictOf(error);
      } finally {
        end.abort();
      }
    }

    it.each(CALLERS)("the caller %s may call all methods of its role, and no other methods", async (caller) => {
      const verdicts: { [method: string]: string } = {};
      for (const method of ACCESS.keys()) verdicts[nameOf(method)] = await attempt(method, caller);
      const expected = [...ACCESS.keys()].map((method) => [nameOf(method), verdict(caller, nameOf(method))] as const);
      expect(verdicts).toEqual(Object.fromEntries(expected));
    });
  });

  it.each(CALLERS)("the caller %s may use all REST paths of its role, and no other paths", async (caller) => {
    const endpoints = [...VERBS].map(([verb, { method }]) => ["/api/user", verb, method] as const);
    for (const [path, verb, method] of [
      ...endpoints,
      ["/api/viewer", "POST", ViewerService.method.resolveViewer] as const,
    ]) {
      const headers = { ...headersOf(caller), "content-type": "application/json" };
      // The body is invalid JSON. If the role of the caller is too low, the error must report the role, not the JSON.
      const answer = await fetch(server.url + path, {
        method: verb,
        headers,
        ...(verb !== "GET" && { body: "{" }),
      });
      const { error } = (await answer.json()) as { error: { reason: string; required_role?: string; message: string } };
      const expected = verdict(caller, nameOf(method));
      if (expected === "in") {
        expect(answer.status).toBe(400);
        continue;
      }
      expect(answer.status).toBe(caller === "nobody" ? 401 : 403);
      expect([error.reason, error.required_role].filter(Boolean).join(" ")).toBe(expected);
      if (error.required_role !== undefined) expect(error.message).toContain(error.required_role);
    }
  });

  it("an insufficient role is reported even if the request body is invalid", async () => {
    const path = "/usergroup.v1.UserGroupService/UpdateUserGroup";
    const headers = { ...headersOf("read"), "content-type": "application/json" };
    const answer = await fetch(server.url + path, { method: "POST", headers, body: "no JSON" });
    expect(answer.status).toBe(403);
    expect(await answer.json()).toMatchObject({ code: "permission_denied" });
  });

  it("GetUserGroup with role read returns existing groups, and does not create a missing group", async () => {
    const reader = grpcClients(server, tokens.read ?? "");
    const missing = { code: "NotFound", reason: "USER_GROUP_NOT_FOUND" };
    const userGroupId = "read, not created";
    const url = `${server.url}/api/user?user_group_id=${encodeURIComponent(userGroupId)}&name=New`;
    for (let tries = 0; tries < 2; tries++) {
      expect(await failureOf(reader.groups.getUserGroup({ userGroupId, name: "New" }))).toEqual(missing);
      const answer = await fetch(url, { headers: headersOf("read") });
      expect(answer.status).toBe(404);
      expect(await answer.json()).toMatchObject({ success: 0, error: { reason: "USER_GROUP_NOT_FOUND" } });
    }
    const writer = grpcClients(server, tokens.manage ?? "");
    const made = await writer.groups.getUserGroup({ userGroupId, name: "Old", properties: { a: 1 } });
    expect(made.newUserGroup).toBe(true);
    const found = await reader.groups.getUserGroup({ userGroupId, name: "New" });
    expect(found).toMatchObject({ userGroup: made.userGroup, newUserGroup: false });
    const answer = await fetch(url, { headers: headersOf("read") });
    expect(await answer.json()).toMatchObject({
      success: 1,
      new_user_group: false,
      user_group: { properties: { a: 1 } },
    });
    for (const caller of ["resolve", "read", "manage", "admin"] as const) {
      const { viewers } = grpcClients(server, tokens[caller] ?? "");
      expect((await viewers.resolveViewer({ token: made.userGroup?.token ?? "" })).providedId).toBe(userGroupId);
      expect((await failureOf(viewers.resolveViewer({ token: newUserGroupToken() }))).code).toBe("NotFound");
    }
  });
});
