import type { DescMethod } from "@bufbuild/protobuf";
import { Code, type ConnectError, createConnectRouter } from "@connectrpc/connect";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { RetryInfoSchema } from "../../gen/google/rpc/error_details_pb.ts";
import { AdminService } from "../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { type Authenticated, ROOT } from "../auth/api-tokens.ts";
import { RateLimiter } from "../auth/rate-limiter.ts";
import { parseNetwork } from "../domain/client-address.ts";
import type { RateCounter } from "../domain/store.ts";
import { ACCESS, authorization } from "./access.ts";
import { CallContext } from "./call-context.ts";
import { routes } from "./routes.ts";

const HEADER = { authorization: "Token 0123456789abcdef" };

it("every served method has an access policy, and every policy belongs to a served method", () => {
  const router = createConnectRouter();
  // The handlers are created but not called, so they need no dependencies.
  routes({ reflection: true } as never)(router);
  const served = router.handlers.map(({ method }) => method);
  expect(served.filter((method) => !ACCESS.has(method))).toEqual([]);
  expect(new Set(served)).toEqual(new Set(ACCESS.keys()));
});

it("refuses calls of a method without a policy with PERMISSION_DENIED", () => {
  const method = { name: "Forgotten" } as DescMethod;
  const contextValues = new CallContext({ headers: HEADER });
  const authorize = authorization({
    authenticator: { authenticate: () => ROOT },
    rateLimiters: { tokens: undefined, failures: undefined, onLimited: () => {} },
  });
  expect(() => authorize({ method, headers: HEADER, contextValues })).toThrow(
    expect.objectContaining({ code: Code.PermissionDenied }),
  );
  expect(contextValues.principal).toBeUndefined();
});

/** Creates an authorization. Its lookups of API tokens wait until the test completes them through `lookUps`. */
function open(max: number, proxies: readonly string[] = []) {
  const lookUps: { found(answer: Authenticated): void; fail(error: Error): void }[] = [];
  const counted: string[] = [];
  const counter: RateCounter = {
    add: (key) => {
      counted.push(key);
      return new Promise<never>(() => {});
    },
  };
  let refused = 0;
  const authentication = {
    authenticator: {
      authenticate: () => new Promise<Authenticated>((found, fail) => lookUps.push({ found, fail })),
    },
    rateLimiters: {
      tokens: undefined,
      failures: new RateLimiter({ limit: { max, windowSeconds: 3600 }, counter }),
      onLimited: () => void refused++,
    },
  };
  const trustedProxies = proxies.map((text) => parseNetwork(text) ?? expect.fail("no network"));
  const addresses: string[] = [];
  const authorize = authorization(authentication);
  /** Authorizes a call. Returns the principal or the error. */
  const call = async (peer: string, headers: { [name: string]: string } = HEADER) => {
    const method = AdminService.method.listEnvironments;
    const peerAddress = () => {
      addresses.push(peer);
      return peer;
    };
    const contextValues = new CallContext({ method, headers, peerAddress }, trustedProxies);
    try {
      await authorize({ method, headers, contextValues });
      return contextValues.principal;
    } catch (error) {
      return error;
    }
  };
  return { call, lookUps, counted, addresses, refused: () => refused };
}

function reported(error: unknown) {
  const refusal = error as ConnectError;
  const headers = ["retry-after", "ratelimit", "ratelimit-policy", "www-authenticate"];
  return {
    code: refusal.code,
    headers: headers.map((name) => refusal.metadata.get(name)),
    seconds: refusal.findDetails(RetryInfoSchema)[0]?.retryDelay?.seconds,
  };
}

const POLICY = (max: number) => `"address";q=${max};w=3600`;

describe("limit on failed authentications", () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ["performance"] }));
  afterEach(() => void vi.useRealTimers());

  it("failed authentications are limited per client address, but valid tokens from the same address are still accepted", async () => {
    const { call, lookUps, counted, refused } = open(2);
    const calls = Array.from({ length: 6 }, () => call("192.0.2.1"));
    expect(lookUps).toHaveLength(6);
    for (const bad of [0, 1, 2]) lookUps[bad]?.found(undefined);
    lookUps[3]?.found(ROOT);
    lookUps[4]?.fail(new Error("away"));
    const [first, second, third, good, away, late] = calls;
    expect(reported(await first)).toMatchObject({ code: Code.Unauthenticated });
    expect(reported(await second)).toMatchObject({ code: Code.Unauthenticated });
    const limited = reported(await third);
    expect(limited.code).toBe(Code.ResourceExhausted);
    expect(limited.headers).toEqual(["3600", '"address";r=0;t=3600', POLICY(2), null]);
    expect(limited.seconds).toBe(3600n);
    expect(await good).toBe(ROOT);
    expect(await away).toEqual(new Error("away"));
    lookUps[5]?.found(ROOT);
    expect(await late).toBe(ROOT);
    expect(counted).toEqual(["192.0.2.1"]);
    expect(refused()).toBe(1);
  });

  it("failed authentications are counted by the client address in the header of a trusted proxy", async () => {
    const { call, lookUps, counted, addresses } = open(9, ["10.0.0.0/8"]);
    for (const client of ["2001:db8::1", "2001:db8:0:1::1"]) {
      const failing = call("10.0.0.1", { ...HEADER, "x-forwarded-for": client });
      lookUps.at(-1)?.found(undefined);
      expect(await failing).toMatchObject({ code: Code.Unauthenticated });
    }
    expect(counted).toEqual(["2001:db8:0:0::/64", "2001:db8:0:1::/64"]);
    expect(addresses).toEqual(["10.0.0.1", "10.0.0.1"]);
  });
});
