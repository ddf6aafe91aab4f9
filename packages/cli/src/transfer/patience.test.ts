import timers from "node:timers/promises";
import { Code, ConnectError } from "@connectrpc/connect";
import { afterEach, describe, expect, it, vi } from "vitest";
import { ErrorInfoSchema, RetryInfoSchema } from "../../../../gen/google/rpc/error_details_pb.ts";
import { EXIT, Failure } from "../failures.ts";
import { Interrupted } from "../shell.ts";
import { patiently } from "./patience.ts";

/** Creates an error of the service. @param retryS the delay that the service requests, in seconds */
function failing(code: Code, reason: string, retryS?: number): Failure {
  const error = new ConnectError("what went wrong", code);
  error.details.push({ desc: ErrorInfoSchema, value: { reason, domain: "user-group-service" } });
  if (retryS !== undefined)
    error.details.push({ desc: RetryInfoSchema, value: { retryDelay: { seconds: BigInt(retryS) } } });
  return new Failure("what went wrong", { exitCode: EXIT.unavailable, reason, cause: error });
}

const { signal } = new AbortController();

afterEach(() => void vi.restoreAllMocks());

describe("patiently", () => {
  it("retries for five minutes and then throws the error; delays that the service requests do not count", async () => {
    const pauses: [number, string][] = [];
    // The fake clock advances only during pauses. Each pause is a little longer than requested, as on a busy machine.
    let now = 0;
    vi.spyOn(performance, "now").mockImplementation(() => now);
    vi.spyOn(timers, "setTimeout").mockResolvedValue(undefined);
    const onPause = (ms: number, reason: string) => {
      pauses.push([ms, reason]);
      now += ms + 1;
    };
    const limited = failing(Code.ResourceExhausted, "RATE_LIMITED", 301);
    const answers = [Promise.reject(limited), Promise.reject(limited), Promise.resolve("done")];
    expect(await patiently({ signal, onPause }, async () => answers.shift())).toBe("done");
    expect(pauses).toEqual([
      [expect.any(Number), "RATE_LIMITED"],
      [expect.any(Number), "RATE_LIMITED"],
    ]);
    for (const [ms] of pauses) expect(ms).toBeGreaterThanOrEqual(301_000);
    const away = failing(Code.Unavailable, "STORE_UNAVAILABLE");
    await expect(patiently({ signal, onPause }, () => Promise.reject(away))).rejects.toBe(away);
  });

  it.each([
    [Code.Unauthenticated, "API_TOKEN_UNKNOWN"],
    [Code.PermissionDenied, "ROLE_TOO_LOW"],
    [Code.InvalidArgument, "VALIDATION_FAILED"],
    [Code.ResourceExhausted, "ENVIRONMENT_FULL"],
    [Code.Unimplemented, ""],
  ])("does not retry a call that fails with a permanent error: code %i, reason %s", async (code, reason) => {
    let calls = 0;
    const error = failing(code, reason);
    const call = () => {
      calls += 1;
      throw error;
    };
    await expect(patiently({ signal }, async () => call())).rejects.toBe(error);
    expect(calls).toBe(1);
  });

  it("`patiently` ends its pause as soon as the signal aborts", async () => {
    const controller = new AbortController();
    const interrupted = new Interrupted();
    const onPause = () => controller.abort(interrupted);
    const error = failing(Code.Unavailable, "STORE_UNAVAILABLE");
    const waiting = patiently({ signal: controller.signal, onPause }, () => Promise.reject(error));
    await expect(waiting).rejects.toThrow(expect.objectContaining({ cause: interrupted }));
  });
});
