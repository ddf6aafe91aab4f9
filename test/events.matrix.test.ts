import { readFileSync } from "node:fs";
import { createClient } from "@connectrpc/connect";
import { closeLater } from "@user-group-service/testing/opened";
import { ROOT } from "@user-group-service/testing/process";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { describe, expect, it } from "vitest";
import { AdminService, WatchEventsRequest_Start as Start } from "../gen/usergroup/admin/v1/admin_service_pb.ts";
import { EVENT_TYPES } from "../src/domain/events.ts";
import { ADMIN_CLIENTS, ADMIN_TOKEN, newName, openAdminTransport, presenting, suiteAdmins } from "./support/admin.ts";
import { clientsOfRun } from "./support/matrix.ts";
import { sharedServer } from "./support/opened.ts";
import { failureOf } from "./support/rpc.ts";
import { adminTokenOf, importGroups, newEnvironment, type Request, watch } from "./support/watch.ts";

it("docs/events.md lists all types of events", () => {
  const [, table = ""] = readFileSync(`${ROOT}/docs/events.md`, "utf8").split("## Types\n");
  const listed = [...(table.split("\n## ")[0]?.matchAll(/`([a-z_]+\.[a-z]+)`/g) ?? [])].map(([, type]) => type);
  expect(listed.sort()).toEqual([...EVENT_TYPES].sort());
});

/** All clients except grpc-js, because the grpc-js transport of the tests does not support streams. */
const STREAMING_CLIENTS = clientsOfRun(ADMIN_CLIENTS).filter(({ isGrpcJs }) => !isGrpcJs);

describe.each(RUNTIMES)("WatchEvents on %s", (runtime) => {
  const server = sharedServer({ runtime });

  describe.each(STREAMING_CLIENTS)("over $name", (options) => {
    const admins = suiteAdmins(server, options);

    it("WatchEvents streams events from now, from the beginning, and from each cursor", async () => {
      const root = admins();
      const environment = await newEnvironment(root);
      const own = admins((await adminTokenOf(root, environment)).token);
      const live = watch(own, {});
      await live.isOpen();
      expect(live.events()).toEqual([]);
      await importGroups(root, environment, ["a"], "secret name");
      await importGroups(root, environment, ["a"], "other secret");
      await root.deleteUserGroup({ environment, userGroupId: "a" });
      const expected = ["user_group.created a", "user_group.updated a", "user_group.deleted a"];
      expect(await live.seen(3)).toEqual(expected);
      expect(live.events()[1]).toMatchObject({ actorId: "root", changedFields: ["name"] });
      expect(
        JSON.stringify(live.events(), (_, value) => (typeof value === "bigint" ? `${value}` : value)),
      ).not.toContain("secret");
      for (const [i, { cursor }] of live.responses.entries()) {
        const rest = watch(own, { cursor });
        await rest.isOpen();
        expect(await rest.seen(3 - i)).toEqual(expected.slice(i));
        rest.end();
      }
      const all = watch(root, { environment, start: Start.BEGINNING });
      expect((await all.seen(5)).map((each) => each.split(" ")[0])).toEqual([
        "environment.created",
        "api_token.created",
        ...expected.map((each) => each.split(" ")[0]),
      ]);
    });

    it("WatchEvents refuses a malformed cursor, a cursor with a start, and a cursor of another environment", async () => {
      const root = admins();
      const environment = await newEnvironment(root);
      const other = watch(root, { environment: await newEnvironment(root) });
      await other.isOpen();
      const refused = (request: Request) => failureOf(watch(root, { environment, ...request } as Request).ended);
      const invalid = { code: "InvalidArgument", reason: "VALIDATION_FAILED" };
      for (const cursor of ["x", `${other.cursor()}=`, "a".repeat(2049)])
        expect(await refused({ cursor })).toEqual(invalid);
      expect(await refused({ cursor: other.cursor(), start: Start.NOW })).toEqual(invalid);
      expect(await refused({ start: 9 as Start })).toEqual(invalid);
      expect(await refused({ environment: undefined })).toEqual(invalid);
      expect(await refused({ cursor: other.cursor() })).toEqual({
        code: "OutOfRange",
        reason: "EVENT_CURSOR_EXPIRED",
      });
      expect(await refused({ environment: { name: newName() } })).toMatchObject({ reason: "ENVIRONMENT_NOT_FOUND" });
    });
  });

  it("WatchEvents ends when its API token is revoked or expires, and when the environment is deleted", async () => {
    const { transport, close } = openAdminTransport(server.url, {
      protocol: "connect",
      httpVersion: "2",
      binary: true,
    });
    closeLater(close);
    const root = createClient(AdminService, presenting(transport, ADMIN_TOKEN));
    const environment = await newEnvironment(root);
    const opened = async () => {
      const { id, token } = await adminTokenOf(root, environment);
      const stream = watch(createClient(AdminService, presenting(transport, token)), {});
      await stream.isOpen();
      return { id, stream };
    };
    const unknown = { code: "Unauthenticated", reason: "API_TOKEN_UNKNOWN" };
    const revoked = await opened();
    await root.revokeApiToken({ environment, apiTokenId: revoked.id });
    expect(await failureOf(revoked.stream.ended)).toEqual(unknown);
    const expiring = await opened();
    await root.updateApiToken({
      environment,
      apiTokenId: expiring.id,
      expireTime: { seconds: BigInt(Math.ceil(Date.now() / 1000) + 2) },
    });
    expect(await failureOf(expiring.stream.ended)).toEqual(unknown);
    const orphan = await opened();
    const byRoot = watch(root, { environment });
    await byRoot.isOpen();
    await root.deleteEnvironment({ environment, force: true });
    expect(await failureOf(byRoot.ended)).toMatchObject({ reason: "ENVIRONMENT_NOT_FOUND" });
    expect(["API_TOKEN_UNKNOWN", "ENVIRONMENT_NOT_FOUND"]).toContain((await failureOf(orphan.stream.ended)).reason);
  });
});
