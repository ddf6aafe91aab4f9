import { create } from "@bufbuild/protobuf";
import { createClient, createRouterTransport } from "@connectrpc/connect";
import { expect, it } from "vitest";
import { AdminService } from "../../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { EnvironmentSchema } from "../../../../gen/usergroup/admin/v1/environment_pb.ts";
import { allEnvironments, environmentsWith } from "./results.ts";

it("finds an environment on the last page of the list", async () => {
  const names = Array.from({ length: 2500 }, (_, i) => `customer-${i}`);
  const transport = createRouterTransport(({ rpc }) => {
    rpc(AdminService.method.listEnvironments, ({ pageSize, pageToken }) => {
      const end = Number(pageToken) + pageSize;
      return {
        environments: names.slice(Number(pageToken), end).map((name) => create(EnvironmentSchema, { name })),
        nextPageToken: end < names.length ? String(end) : "",
      };
    });
  });
  const all = await allEnvironments(createClient(AdminService, transport), new AbortController().signal);
  expect(environmentsWith(all, "MER-2499").map(({ name }) => name)).toEqual(["customer-2499"]);
});
