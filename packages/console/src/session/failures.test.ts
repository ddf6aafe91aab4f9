import { Code, ConnectError } from "@connectrpc/connect";
import { expect, it } from "vitest";
import { ErrorInfoSchema } from "../../../../gen/google/rpc/error_details_pb.ts";
import { InvalidInput } from "../../../operator/src/input.ts";
import { failureOf } from "./failures.ts";

const IN_DOUBT = expect.stringMatching(/^The change may have been made/);

function answered(code: Code, reason: string, { outcome, retryAfter }: { outcome?: string; retryAfter?: string } = {}) {
  const error = new ConnectError("it says why", code, retryAfter ? { "retry-after": retryAfter } : {});
  const metadata = outcome === undefined ? {} : { outcome };
  error.details.push({ desc: ErrorInfoSchema, value: { domain: "user-group-service", reason, metadata } });
  return error;
}

it("failureOf says that a temporarily refused change was not made, and when to try again", () => {
  const limited = answered(Code.ResourceExhausted, "RATE_LIMITED", { retryAfter: "12" });
  expect(failureOf(limited)).toMatchObject({
    message: "it says why",
    hint: "Nothing was changed, and your input is still here. Try again in 12 seconds.",
    kind: "resource_exhausted, RATE_LIMITED",
  });
  expect(failureOf(limited).doubt).toBeUndefined();
  expect(failureOf(answered(Code.ResourceExhausted, "OVERLOADED")).hint).toMatch(/Try again later\.$/);
});

it("failureOf distinguishes a rejected token from a proxy that requires its own sign-in", () => {
  expect(failureOf(answered(Code.Unauthenticated, "API_TOKEN_UNKNOWN")).isTokenRefused).toBe(true);
  const proxy = failureOf(new ConnectError("HTTP 401", Code.Unauthenticated));
  expect(proxy).toMatchObject({ message: expect.stringContaining("proxy"), kind: undefined });
  expect(proxy.isTokenRefused).toBeFalsy();
  expect(proxy.hint).toMatch(/sign in to the proxy/);
});

it("failureOf advises to check a change if the service did not answer, or does not know the outcome", () => {
  for (const [error, words] of [
    [new ConnectError("Failed to fetch"), "could not be reached: Failed to fetch."],
    [new ConnectError("late", Code.DeadlineExceeded), "did not answer in time"],
    [new ConnectError("HTTP 503", Code.Unavailable, { "retry-after": "1" }), "with HTTP 503"],
  ] as const)
    expect(failureOf(error)).toMatchObject({
      message: expect.stringContaining(words),
      hint: expect.stringMatching(/[Tt]ry again (later|in 1 second)\.$/),
      doubt: IN_DOUBT,
    });
  for (const error of [
    answered(Code.Unavailable, "STORE_UNAVAILABLE", { outcome: "unknown" }),
    answered(Code.DataLoss, "RECORD_UNREADABLE", { outcome: "unknown" }),
    answered(Code.DeadlineExceeded, "DEADLINE_EXCEEDED"),
    answered(Code.Internal, "INTERNAL"),
    answered(Code.Unknown, "A_LATER_REASON"),
  ])
    expect(failureOf(error), error.message).toMatchObject({ doubt: IN_DOUBT });
  for (const error of [
    answered(Code.Unavailable, "STORE_UNAVAILABLE", { outcome: "not_made" }),
    answered(Code.Unavailable, "TOO_FEW_REPLICAS", { outcome: "unknown" }),
    answered(Code.DeadlineExceeded, "REQUEST_TIMEOUT"),
    answered(Code.NotFound, "USER_GROUP_NOT_FOUND"),
  ])
    expect(failureOf(error).doubt, error.message).toBeUndefined();
  const notMade = answered(Code.Unavailable, "STORE_UNAVAILABLE", { outcome: "not_made" });
  expect(failureOf(notMade).hint).toBe("Nothing was changed, and your input is still here. Try again.");
});

it("failureOf does not mention a change if the failed call only reads data", () => {
  for (const error of [
    new ConnectError("Failed to fetch"),
    new ConnectError("late", Code.DeadlineExceeded),
    answered(Code.Internal, "INTERNAL"),
    answered(Code.ResourceExhausted, "RATE_LIMITED", { retryAfter: "12" }),
    answered(Code.Unavailable, "STORE_UNAVAILABLE"),
    answered(Code.Unavailable, "STORE_UNAVAILABLE", { outcome: "not_made" }),
    answered(Code.Unavailable, "STORE_UNAVAILABLE", { outcome: "unknown" }),
  ]) {
    const { hint, doubt } = failureOf(error, { isRead: true });
    expect(`${hint} ${doubt}`, error.message).not.toMatch(/change/);
  }
});

it("failureOf keeps the message of an InvalidInput error, and adds no hint", () => {
  expect(failureOf(new InvalidInput("Give it a name."))).toMatchObject({ message: "Give it a name.", hint: undefined });
});
