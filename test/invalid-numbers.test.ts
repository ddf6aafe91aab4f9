import { create, type DescField, type DescMessage, type DescMethodUnary, type Message } from "@bufbuild/protobuf";
import { Code, ConnectError, type Transport } from "@connectrpc/connect";
import { forSuite } from "@user-group-service/testing/opened";
import { describe, expect, it } from "vitest";
import { BadRequestSchema } from "../gen/google/rpc/error_details_pb.ts";
import { AdminService } from "../gen/usergroup/admin/v1/admin_service_pb.ts";
import { UserGroupService } from "../gen/usergroup/v1/user_group_service_pb.ts";
import { ViewerService } from "../gen/usergroup/v1/viewer_service_pb.ts";
import { ADMIN_CLIENTS, bearer, openAdminTransport } from "./support/admin.ts";
import { sharedServer } from "./support/opened.ts";
import { restCalls } from "./support/rest-calls.ts";
import { ADMIN_TOKEN } from "./support/server.ts";

const DAY = 86_400n;
const YEAR_10000 = 253_402_300_800n;

/**
 * Maps the name of a type to values that JSON cannot express, or that the type forbids. Binary messages can contain
 * these values.
 */
const INVALID: { readonly [typeName: string]: readonly (readonly [what: string, value: object])[] } = {
  "google.protobuf.Struct": [
    ["NaN", { a: Number.NaN }],
    ["Infinity", { a: Number.POSITIVE_INFINITY }],
    ["-Infinity", { a: Number.NEGATIVE_INFINITY }],
    ["NaN in an array", { a: [1, Number.NaN] }],
    ["NaN in an object", { a: { b: Number.NaN } }],
  ],
  "google.protobuf.Duration": [
    ["10^9 nanoseconds", { seconds: 100n, nanos: 1_000_000_000 }],
    ["-10^9 nanoseconds", { seconds: 100n, nanos: -1_000_000_000 }],
    ["negative nanoseconds after positive seconds", { seconds: 100n, nanos: -1 }],
    ["positive nanoseconds after negative seconds", { seconds: -100n, nanos: 1 }],
    ["2^62 seconds", { seconds: 2n ** 62n, nanos: 0 }],
  ],
  "google.protobuf.Timestamp": [
    ["10^9 nanoseconds", { seconds: 30_000n * DAY, nanos: 1_000_000_000 }],
    ["negative nanoseconds", { seconds: 30_000n * DAY, nanos: -1 }],
    ["the year 10000", { seconds: YEAR_10000, nanos: 0 }],
    ["the year 0", { seconds: -62_135_596_801n, nanos: 0 }],
    ["2^62 seconds", { seconds: 2n ** 62n, nanos: 0 }],
  ],
};

/** A field of a request or of a nested message. `request` creates a request that sets only this field. */
interface Place {
  readonly path: string;
  readonly typeName: string;
  readonly request: (value: object) => Message;
}

/** Returns the fields whose type is in `INVALID`, including the fields of nested messages. */
function placesIn(desc: DescMessage): Place[] {
  return desc.fields.flatMap((field): Place[] => {
    const { message } = field;
    if (!message) return [];
    const setting = (value: object) => create(desc, settingOf(field, value));
    const path = field.fieldKind === "list" ? `${field.name}[0]` : field.name;
    if (message.typeName in INVALID) return [{ path, typeName: message.typeName, request: setting }];
    if (message.typeName.startsWith("google.")) return [];
    return placesIn(message).map((inner) => ({
      ...inner,
      path: `${path}.${inner.path}`,
      request: (value) => setting(inner.request(value)),
    }));
  });
}

function settingOf({ fieldKind, localName }: DescField, value: object): Record<string, unknown> {
  return { [localName]: fieldKind === "list" ? [value] : value };
}

const CASES = [UserGroupService, ViewerService, AdminService]
  .flatMap(({ methods }) => methods as readonly DescMethodUnary[])
  .flatMap((method) => placesIn(method.input).map((place) => ({ ...place, method })))
  .map((each) => [`${each.method.name}.${each.path}`, each] as const);

it("these tests cover fields of every service", () => {
  const fields = CASES.map(([name]) => name);
  expect(fields).toContain("UpdateUserGroup.properties");
  expect(fields).toContain("CreateViewerSession.claims");
  expect(fields).toContain("ImportUserGroups.user_groups[0].properties");
  expect(fields).toContain("RotateUserGroupToken.previous_token_ttl");
  expect(fields).toContain("RetireTokenKey.reencrypt_start_time");
});

const server = sharedServer();

describe.each(ADMIN_CLIENTS.filter(({ binary }) => binary))("over $name", (options) => {
  const opened = forSuite(
    () => openAdminTransport(server.url, options),
    ({ close }) => close(),
  );

  it.each(CASES)("an invalid number is rejected in %s", async (_, { path, typeName, method, request }) => {
    const token = method.parent === AdminService ? ADMIN_TOKEN : server.tokens.customer;
    for (const [what, value] of INVALID[typeName] ?? []) {
      const error = await failureOf(opened.transport, { method, message: request(value), token });
      expect(error.code, what).toBe(Code.InvalidArgument);
      const violations = error.findDetails(BadRequestSchema).flatMap(({ fieldViolations }) => fieldViolations);
      const { description } = violations.find(({ field }) => field === path) ?? {};
      expect(description, what).toMatch(/^must /);
    }
  });
});

it("a JSON number that overflows to Infinity is rejected over REST and Connect", async () => {
  const { call } = restCalls(server);
  const text = (id: string, name = "user_group_id") => `{"${name}":"${id}","properties":{"n":1e999}}`;
  const byConnect = { target: "/usergroup.v1.UserGroupService/GetUserGroup" };
  for (const answer of [
    await call("GET", text("infinite")),
    await call("PUT", text("infinite")),
    await call("GET", undefined, { target: `/api/user?user_group_id=infinite&properties={"n":1e999}` }),
    await call("POST", text("infinite", "userGroupId"), byConnect),
  ]) {
    expect(answer.status).toBe(400);
    expect(answer.body.toString()).toContain("properties");
  }
});

async function failureOf(
  transport: Transport,
  { method, message, token }: { method: DescMethodUnary; message: Message; token: string },
): Promise<ConnectError> {
  const answer = transport.unary(method, undefined, undefined, bearer(token), message as never);
  return answer.then(
    () => expect.fail(`${method.name} succeeded`),
    (error: unknown) => ConnectError.from(error),
  );
}
