import timers from "node:timers/promises";
import { create } from "@bufbuild/protobuf";
import { Code, ConnectError, createClient, createRouterTransport } from "@connectrpc/connect";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { ErrorInfoSchema } from "../../../gen/google/rpc/error_details_pb.ts";
import { AdminService } from "../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import {
  RotateUserGroupTokenRequestSchema,
  UserGroupService,
} from "../../../gen/usergroup/v1/user_group_service_pb.ts";
import { ViewerService } from "../../../gen/usergroup/v1/viewer_service_pb.ts";
import { isRepeatable, retrying } from "./retry.ts";

/** The pauses so far, in milliseconds. The tests replace the timer, so no pause takes time. */
let pauses: number[] = [];

beforeEach(() => {
  pauses = [];
  vi.spyOn(Math, "random").mockReturnValue(0);
  vi.spyOn(timers, "setTimeout").mockImplementation(async (ms) => void pauses.push(ms ?? 0));
  vi.spyOn(performance, "now").mockImplementation(() => pauses.reduce((sum, ms) => sum + ms, 0));
});
afterEach(() => void vi.restoreAllMocks());

function serviceError(
  code: Code,
  reason: string,
  { outcome, retryAfter }: { outcome?: string; retryAfter?: string } = {},
) {
  const error = new ConnectError("no", code, retryAfter === undefined ? undefined : { "retry-after": retryAfter });
  error.details.push({
    desc: ErrorInfoSchema,
    value: { reason, domain: "user-group-service", metadata: outcome === undefined ? {} : { outcome } },
  });
  return error;
}

function nodeError(nodeCode: string, code: Code, syscall = "connect"): ConnectError {
  const cause = Object.assign(new Error(nodeCode), { code: nodeCode, syscall });
  return new ConnectError(nodeCode, code, undefined, undefined, cause);
}

/** Makes a call that always fails. Returns the number of attempts, and the timeout header of each attempt. */
async function triesOf(
  error: ConnectError,
  call: "get" | "update" | "rotate" | "rotate with a request id" | "resolve",
  timeoutMs?: number,
  maxTries: number | undefined = 4,
) {
  let tries = 0;
  const left: number[] = [];
  const transport = createRouterTransport(() => {}, {
    transport: {
      interceptors: [
        retrying({ maxTries }),
        () => async (request) => {
          tries += 1;
          left.push(Number(request.header.get("connect-timeout-ms")));
          throw error;
        },
      ],
    },
  });
  const groups = createClient(UserGroupService, transport);
  const options = { timeoutMs };
  const rotation = { group: { case: "userGroupId", value: "acme" } } as const;
  const calls = {
    get: () => groups.getUserGroup({ userGroupId: "acme" }, options),
    update: () => groups.updateUserGroup({ userGroupId: "acme" }, options),
    rotate: () => groups.rotateUserGroupToken(rotation, options),
    "rotate with a request id": () =>
      groups.rotateUserGroupToken(create(RotateUserGroupTokenRequestSchema, { ...rotation, requestId: "r" }), options),
    resolve: () => createClient(ViewerService, transport).resolveViewer({ token: "t" }, options),
  };
  const failed = await calls[call]().then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(failed).toBe(error);
  return { tries, left };
}

it("isRepeatable returns false only for methods whose second call has another effect or fails", () => {
  const methods = [UserGroupService, ViewerService, AdminService].flatMap(({ methods }) => methods);
  const once = methods.filter((method) => !isRepeatable(method)).map(({ name }) => name);
  expect(once).toEqual([
    "UpdateUserGroup",
    "RotateUserGroupToken",
    "CreateEnvironment",
    "DeleteEnvironment",
    "CreateApiToken",
    "UpdateApiToken",
    "RotateApiToken",
    "RevokeApiToken",
    "DeleteUserGroup",
    "RevokeUserGroupTokens",
    "RotateSigningKey",
    "CreateWebhook",
    "UpdateWebhook",
    "DeleteWebhook",
    "RotateWebhookSecret",
    "TestWebhook",
    "RedeliverWebhook",
  ]);
});

it.each([
  [
    "the store is unavailable and no change was made",
    serviceError(Code.Unavailable, "STORE_UNAVAILABLE", { outcome: "not_made" }),
  ],
  ["the service is overloaded", serviceError(Code.ResourceExhausted, "OVERLOADED", { retryAfter: "0" })],
  ["there is no connection", nodeError("ECONNREFUSED", Code.Unavailable)],
  ["the network is unreachable", nodeError("EHOSTUNREACH", Code.Internal)],
])("the client repeats all calls if %s", async (_, error) => {
  for (const call of ["get", "update", "rotate"] as const) expect((await triesOf(error, call)).tries).toBe(4);
});

it.each([
  ["the store may have made a change", serviceError(Code.Unavailable, "STORE_UNAVAILABLE", { outcome: "unknown" })],
  ["a proxy has no upstream", new ConnectError("HTTP 503", Code.Unavailable)],
  ["the connection broke", nodeError("ECONNRESET", Code.Aborted, "read")],
  // The next two codes also occur if an attempt to connect fails. Only the system call (`read`) shows that the
  // connection was established.
  ["the connection is dead", nodeError("ETIMEDOUT", Code.Unavailable, "read")],
  ["the network fails during the call", nodeError("EHOSTUNREACH", Code.Internal, "read")],
  ["the connection closed while the client wrote the request", nodeError("EPIPE", Code.Internal, "write")],
])("if %s, the client repeats only calls that are safe to repeat", async (_, error) => {
  for (const call of ["get", "resolve", "rotate with a request id"] as const)
    expect((await triesOf(error, call)).tries, call).toBe(4);
  for (const call of ["update", "rotate"] as const) expect((await triesOf(error, call)).tries, call).toBe(1);
});

const broken = nodeError("ECONNRESET", Code.Aborted, "read");
const unknown = serviceError(Code.Unavailable, "STORE_UNAVAILABLE", { outcome: "unknown" });
const notMade = serviceError(Code.Unavailable, "STORE_UNAVAILABLE", { outcome: "not_made" });
const overloaded = serviceError(Code.ResourceExhausted, "OVERLOADED", { retryAfter: "0" });
const unreachable = nodeError("ECONNREFUSED", Code.Unavailable);

it.each([
  ["the attempt with a broken connection, if later attempts changed nothing", [broken, notMade, notMade], broken],
  ["the attempt that may have made a change, if later attempts changed nothing", [notMade, unknown, notMade], unknown],
  ["the attempt with a broken connection, if later attempts were rejected", [broken, overloaded, overloaded], broken],
  ["the last attempt, if no attempt can have made a change", [unreachable, overloaded, notMade], notMade],
  ["the last attempt, if the client could not connect for this attempt", [broken, notMade, unreachable], unreachable],
])("the client throws the error of %s", async (_, errors, thrown) => {
  const left = [...errors];
  const fail = () => async () => {
    throw left.shift();
  };
  const options = { transport: { interceptors: [retrying({ maxTries: errors.length }), fail] } };
  const groups = createClient(
    UserGroupService,
    createRouterTransport(() => {}, options),
  );
  await expect(groups.getUserGroup({ userGroupId: "acme" })).rejects.toBe(thrown);
});

it.each([
  ["the token is unknown", serviceError(Code.NotFound, "TOKEN_NOT_FOUND")],
  ["the etag is wrong", serviceError(Code.Aborted, "ETAG_MISMATCH")],
  ["the environment is full", serviceError(Code.ResourceExhausted, "ENVIRONMENT_FULL")],
  ["the certificate has expired", nodeError("CERT_HAS_EXPIRED", Code.Internal)],
  ["the deadline is exceeded", new ConnectError("late", Code.DeadlineExceeded)],
])("the client does not repeat a call that fails because %s", async (_, error) => {
  for (const call of ["get", "rotate with a request id"] as const) expect((await triesOf(error, call)).tries).toBe(1);
});

it("the client throws the error of the service if Retry-After is longer than the remaining time", async () => {
  const error = serviceError(Code.ResourceExhausted, "RATE_LIMITED", { retryAfter: "7" });
  expect((await triesOf(error, "get", 5000)).tries).toBe(1);
  expect(pauses).toEqual([]);
});

it("the client does not repeat a call without a deadline if Retry-After is longer than ten seconds", async () => {
  const year = serviceError(Code.ResourceExhausted, "RATE_LIMITED", { retryAfter: String(365 * 86_400) });
  // 0 means no deadline.
  expect((await triesOf(year, "get", 0)).tries).toBe(1);
});

it("the client repeats a call until its deadline, and sends the remaining time with each attempt", async () => {
  const error = serviceError(Code.Unavailable, "UNAVAILABLE");
  const { left } = await triesOf(error, "get", 4000, Number.POSITIVE_INFINITY);
  expect(pauses).toEqual([125, 250, 500, 1000, 1000, 1000]);
  expect(left).toEqual([4000, 3875, 3625, 3125, 2125, 1125, 125]);
  pauses = [];
  vi.mocked(Math.random).mockReturnValue(0.5);
  await triesOf(error, "get", 6000, Number.POSITIVE_INFINITY);
  expect(pauses).toEqual([187.5, 375, 750, 1500, 1500, 1500]);
});

it("the client stops after ten seconds if the call has no deadline", async () => {
  const { tries, left } = await triesOf(
    serviceError(Code.Unavailable, "UNAVAILABLE"),
    "get",
    undefined,
    Number.POSITIVE_INFINITY,
  );
  expect(tries).toBe(13);
  expect(left).toEqual(Array(13).fill(0));
});
