import { Code, ConnectError } from "@connectrpc/connect";
import { expect, it } from "vitest";
import { ErrorInfoSchema } from "../../../../gen/google/rpc/error_details_pb.ts";
import { InvalidInput } from "../../../operator/src/input.ts";
import { failureOf } from "./failures.ts";

function answered(code: Code, reason: string, { outcome, retryAfter }: { outcome?: string; retryAfter?: string } = {}) {
  const error = new ConnectError("it says why", code, retryAfter ? { "retry-after": retryAfter } : {});
  const metadata = outcome === undefined ? {} : { outcome };
  error.details.push({ desc: ErrorInfoSchema, value: { domain: "user-group-service", reason, metadata } });
  return error;
}

it("failureOf reports that a temporarily refused call changed nothing, and when to try again", () => {
  const limited = answered(Code.ResourceExhausted, "RATE_LIMITED", { retryAfter: "12" });
  expect(failureOf(limited)).toMatchObject({
    message: "it says why",
    hint: "Nothing was done, and your input is still here. Try again in 12 seconds.",
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

it("failureOf warns of a possible change if no response arrived, or if the outcome is unknown", () => {
  for (const [error, words] of [
    [new ConnectError("Failed to fetch"), "could not be reached: Failed to fetch."],
    [new ConnectError("late", Code.DeadlineExceeded), "did not answer in time"],
    [new ConnectError("HTTP 503", Code.Unavailable, { "retry-after": "1" }), "with HTTP 503"],
  ] as const)
    expect(failureOf(error)).toMatchObject({
      message: expect.stringContaining(words),
      hint: expect.stringMatching(/[Tt]ry again (later|in 1 second)\.$/),
      doubt: expect.stringMatching(/^The change may still have been made/),
    });
  const unknown = answered(Code.Unavailable, "STORE_UNAVAILABLE", { outcome: "unknown" });
  expect(failureOf(unknown).hint).toMatch(/check before you repeat it/);
  const notMade = answered(Code.Unavailable, "STORE_UNAVAILABLE", { outcome: "not_made" });
  expect(failureOf(notMade).hint).toMatch(/^Nothing was changed/);
});

it("failureOf keeps the messages of errors that the console itself throws", () => {
  expect(failureOf(new InvalidInput("Give it a name."))).toMatchObject({ message: "Give it a name.", hint: undefined });
});
