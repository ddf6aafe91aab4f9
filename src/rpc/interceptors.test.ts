import { create } from "@bufbuild/protobuf";
import { Code, ConnectError, type UnaryRequest } from "@connectrpc/connect";
import { describe, expect, it } from "vitest";
import { BadRequestSchema } from "../../gen/google/rpc/error_details_pb.ts";
import { UserGroupService } from "../../gen/usergroup/v1/user_group_service_pb.ts";
import type { Logger } from "../observability/log.ts";
import { Metrics } from "../observability/metrics.ts";
import { CallContext } from "./call-context.ts";
import { callInterceptor } from "./interceptors.ts";

const { getUserGroup, rotateUserGroupToken } = UserGroupService.method;

const intercept = callInterceptor({
  logger: { isLevelEnabled: () => false, error: () => {} } as unknown as Logger,
  metrics: new Metrics(),
  mayLogUnknown: () => true,
  authenticator: { authenticate: () => undefined, forget: () => false },
  isCredential: () => false,
  shutdownSignal: new AbortController().signal,
  confirmMissing: async () => {},
});

/**
 * Sends a request through the interceptor. Returns the error if the interceptor refuses the request, otherwise
 * undefined.
 */
async function refusal(method: typeof getUserGroup | typeof rotateUserGroupToken, init: object, isAuthorized = true) {
  const message = create(method.input, init as never);
  const contextValues = new CallContext({ headers: {} });
  contextValues.isAuthorized = isAuthorized;
  const request = { stream: false, method, message, header: new Headers(), contextValues };
  try {
    await intercept(async () => ({ header: new Headers() }) as never)(request as unknown as UnaryRequest);
    return undefined;
  } catch (error) {
    return error as ConnectError;
  }
}

describe("validation of requests", () => {
  it.each([
    [getUserGroup, { userGroupId: "a\nb" }, "user_group_id", "must not contain U+000A LINE FEED"],
    [getUserGroup, { userGroupId: "" }, "user_group_id", "must not be empty"],
    [getUserGroup, { userGroupId: "x".repeat(257) }, "user_group_id", "must be at most 256 characters"],
    [
      getUserGroup,
      { userGroupId: "a", properties: { x: [{ "\ud800": 1 }] } },
      "properties",
      "must be well-formed Unicode; it contains a lone surrogate",
    ],
    [
      getUserGroup,
      { userGroupId: "a", properties: { n: 2 ** 53 } },
      "properties",
      /^must contain only numbers from -9007199254740991/,
    ],
    [
      getUserGroup,
      { userGroupId: "a", mapping: { a: "x".repeat(1025) } },
      'mapping["a"]',
      "must be at most 1024 characters",
    ],
    [
      rotateUserGroupToken,
      { group: { case: "userGroupId", value: "a" }, requestId: "a b" },
      "request_id",
      "must contain only visible ASCII characters and no spaces",
    ],
  ] as const)(
    "an invalid request is refused with an error that names the field and the broken rule: case %#",
    async (method, init, field, description) => {
      const error = await refusal(method, init);
      expect(error).toBeInstanceOf(ConnectError);
      expect(error?.code).toBe(Code.InvalidArgument);
      const violations = error?.findDetails(BadRequestSchema)[0]?.fieldViolations ?? [];
      expect(violations).toHaveLength(1);
      expect(violations[0]?.field).toBe(field);
      expect(violations[0]?.description).toMatch(description);
      expect(error?.rawMessage).toBe(`${field}: ${violations[0]?.description}`);
    },
  );
});

it("refuses a call without authorization before the validation of the request", async () => {
  const error = await refusal(getUserGroup, { userGroupId: "" }, false);
  expect([error?.code, error?.rawMessage]).toEqual([Code.Internal, "the call was not authorized"]);
});

it("accepts a valid request", async () => {
  expect(await refusal(getUserGroup, { userGroupId: "a", properties: { deep: [{ n: 1.5 }] } })).toBeUndefined();
});
