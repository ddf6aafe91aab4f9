import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { describe, expect, inject, it } from "vitest";
import { UserGroupService } from "../gen/usergroup/v1/user_group_service_pb.ts";
import { RUNTIMES, startServer } from "./support/server.ts";

describe.each(RUNTIMES)("on %s", (runtime) => {
  it("gets a group over gRPC", async () => {
    const server = await startServer({ runtime, redisUrl: inject("redisUrl") });
    const headers = { Authorization: `Token ${server.tokens.customer}` };
    const client = createClient(UserGroupService, createGrpcTransport({ baseUrl: server.url }));
    expect((await client.getUserGroup({ userGroupId: "a" }, { headers })).newUserGroup).toBe(true);
    expect(await server.stop()).toBe(0);
  });
});
