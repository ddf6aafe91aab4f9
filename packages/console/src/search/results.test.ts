import { create } from "@bufbuild/protobuf";
import { createClient, createRouterTransport } from "@connectrpc/connect";
import { expect, it } from "vitest";
import { AdminService } from "../../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { EnvironmentNameSchema, EnvironmentSchema } from "../../../../gen/usergroup/admin/v1/environment_pb.ts";
import { environmentsOf } from "../../../operator/src/pages.ts";
import { environmentsWith, findGroups } from "./results.ts";

it("environmentsOf reads all pages, so that environmentsWith finds an environment on the last page", async () => {
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
  const { listEnvironments } = createClient(AdminService, transport);
  const all = await environmentsOf((page) => listEnvironments(page));
  expect(environmentsWith(all, "MER-2499").map(({ name }) => name)).toEqual(["customer-2499"]);
});

it.each([
  [20, false],
  [21, true],
])("findGroups reads at most 20 pages of a search by name: with %i pages, isCut is %s", async (pages, isCut) => {
  const transport = createRouterTransport(({ rpc }) => {
    rpc(AdminService.method.listUserGroups, ({ nameContains, pageToken }) => {
      if (nameContains === "") return { userGroups: [{ providedId: "acme" }], nextPageToken: "" };
      const next = Number(pageToken) + 1;
      return { nextPageToken: next < pages ? String(next) : "" };
    });
  });
  const request = { environment: create(EnvironmentNameSchema, { name: "customer" }), text: "acme" };
  const found = await findGroups(createClient(AdminService, transport), request, new AbortController().signal);
  expect(found.groups.map(({ providedId }) => providedId)).toEqual(["acme"]);
  expect(found.isCut).toBe(isCut);
});
