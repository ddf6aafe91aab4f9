import { Code, type ConnectError } from "@connectrpc/connect";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { RetryInfoSchema } from "../../gen/google/rpc/error_details_pb.ts";
import { silentCounter } from "../../test/support/silent-counter.ts";
import { type Authenticated, type MayLookUp, NOT_LOOKED_UP, ROOT } from "../auth/authenticator.ts";
import { FailureLimits } from "../auth/caller-limits.ts";
import { RateLimits } from "../auth/rate-limits.ts";
import { parseNetwork } from "../domain/client-address.ts";
import { authenticate } from "./credentials.ts";

const HEADER = { authorization: "Token 0123456789abcdef" };

/** Authentication of calls whose tokens have to be looked up, which the test answers for. */
function open(max: number, proxies: readonly string[] = []) {
  const lookUps: { found(answer: Authenticated): void; fail(error: Error): void }[] = [];
  const { keys: counted, counter } = silentCounter();
  let refused = 0;
  const read = () => new Promise<Authenticated>((found, fail) => lookUps.push({ found, fail }));
  const look = (may: boolean) => (may ? read() : NOT_LOOKED_UP);
  const authentication = {
    authenticator: {
      authenticate: (_: string, mayLookUp?: MayLookUp) => {
        const may = mayLookUp?.() ?? true;
        return may instanceof Promise ? may.then(look) : look(may);
      },
    },
    limits: {
      tokens: undefined,
      failures: new FailureLimits(new RateLimits({ limit: { max, windowSeconds: 3600 }, counter })),
      onLimited: () => void refused++,
    },
    trustedProxies: proxies.map((text) => parseNetwork(text) ?? expect.fail("no network")),
  };
  const addresses: string[] = [];
  /** A call, and what it fails with. */
  const call = async (peer: string, header: { readonly [name: string]: string } = HEADER) => {
    const peerAddress = () => {
      addresses.push(peer);
      return peer;
    };
    try {
      return await authenticate(authentication, { header: new Headers(header), peerAddress });
    } catch (error) {
      return error;
    }
  };
  return { call, lookUps, counted, addresses, refused: () => refused };
}

/** What a refusal says of the limit. */
function told(error: unknown) {
  const refusal = error as ConnectError;
  const headers = ["retry-after", "ratelimit", "ratelimit-policy", "www-authenticate"];
  return {
    code: refusal.code,
    headers: headers.map((name) => refusal.metadata.get(name)),
    seconds: refusal.findDetails(RetryInfoSchema)[0]?.retryDelay?.seconds,
  };
}

const POLICY = (max: number) => `"address";q=${max};w=3600`;

describe("authenticating", () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ["performance"] }));
  afterEach(() => void vi.useRealTimers());

  it("tells a caller to come back soon whose token was not looked up, and after the window one whose token is bad", async () => {
    const { call, lookUps, refused } = open(1);
    const missing = await call("192.0.2.1", {});
    expect(told(missing)).toMatchObject({ code: Code.Unauthenticated });
    const [looked, not] = [call("192.0.2.1"), call("192.0.2.1")];
    const { code, headers, seconds } = told(await not);
    expect([code, seconds]).toEqual([Code.ResourceExhausted, 1n]);
    expect(headers).toEqual(["1", '"address";r=0', POLICY(1), null]);
    expect(lookUps).toHaveLength(1);
    lookUps[0]?.found(undefined);
    const late = told(await looked);
    expect(late.code).toBe(Code.ResourceExhausted);
    expect(late.headers).toEqual(["3600", '"address";r=0;t=3600', POLICY(1), null]);
    expect(late.seconds).toBe(3600n);
    expect(refused()).toBe(2);
  });

  it("looks up no more at once than may fail, and goes on however a look-up ends", async () => {
    const { call, lookUps, counted } = open(2);
    const calls = Array.from({ length: 5 }, () => call("192.0.2.1"));
    const begun = async (count: number) => {
      await new Promise(setImmediate);
      expect(lookUps).toHaveLength(count);
    };
    await begun(2);
    lookUps[0]?.fail(new Error("away"));
    await begun(3);
    lookUps[1]?.found(ROOT);
    await begun(4);
    lookUps[2]?.found(undefined);
    // That failure has taken the place of its look-up.
    await begun(4);
    lookUps[3]?.found(ROOT);
    await begun(5);
    lookUps[4]?.found(ROOT);
    expect(await Promise.all(calls)).toEqual([
      new Error("away"),
      ROOT,
      expect.objectContaining({ code: Code.Unauthenticated }),
      ROOT,
      ROOT,
    ]);
    expect(counted).toEqual(["192.0.2.1"]);
  });

  it("counts for the client that a trusted proxy names, and finds out once a call who it is", async () => {
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
