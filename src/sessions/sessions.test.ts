import { createHmac } from "node:crypto";
import type { JWK } from "jose";
import { exportSPKI, generateKeyPair } from "jose";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { ViewerSessionExpired, type ViewerSessionInvalid } from "../domain/errors.ts";
import { discoveryDocument, issuerOf, jwksDocument } from "./documents.ts";
import type { SessionClaims } from "./rules.ts";
import { isSession, newKeyId } from "./session.ts";
import { jwkOf, newKeyPair, type SigningPair, signSession } from "./signing.ts";
import { FAULTS, SessionVerifier } from "./verifier.ts";

const NOW = 1_800_000_000_000;
const SECONDS = NOW / 1000;
const ISSUER = issuerOf("https://groups.example.com", "acme/Customer");
const KID = newKeyId();

const CLAIMS: SessionClaims = {
  iss: ISSUER,
  aud: "dashboards",
  sub: "a group é",
  tid: 2 ** 53 - 1,
  gen: 3,
  jti: "j",
  iat: SECONDS,
  exp: SECONDS + 600,
  vid: "bob",
  origin: "https://app.example.com",
  properties: { plan: "x" },
  ext: { a: [1, null] },
};

let pair: SigningPair;
let key: JWK;
const sign = (claims: Partial<SessionClaims> = {}) => signSession({ ...CLAIMS, ...claims }, { kid: KID, key });

beforeAll(async () => {
  vi.useFakeTimers({ toFake: ["Date"], now: NOW });
  pair = await newKeyPair();
  key = jwkOf(pair);
});

afterAll(() => {
  vi.useRealTimers();
});

/** @param options `at`: the time of verification, in seconds after the creation of the sessions */
function verify(session: string, { at = 0, verifier = new SessionVerifier(), keys = [KID] } = {}) {
  const keyOf = async (kid: string) => (keys.includes(kid) ? jwkOf({ x: pair.x, y: pair.y }) : undefined);
  vi.setSystemTime(NOW + at * 1000);
  return verifier.verify(session, { issuer: ISSUER, keyOf });
}

async function refusalOf(session: Promise<unknown>): Promise<string> {
  const error = await session.then(
    () => expect.fail("the session was accepted"),
    (reason: unknown) => reason,
  );
  // A `cause` could contain the session or its claims.
  expect((error as Error).cause).toBeUndefined();
  if (error instanceof ViewerSessionExpired) return "expired";
  const { message } = error as ViewerSessionInvalid;
  return Object.entries(FAULTS).find(([, text]) => text === message)?.[0] ?? expect.fail(message);
}

/** The order of the P-256 group. */
const ORDER = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n;

const base64url = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url");

it("SessionVerifier returns the signed claims of a session", async () => {
  const session = await sign();
  expect(isSession(session)).toBe(true);
  expect(isSession(`${base64url({ alg: "ES256", typ: "JWT", kid: KID })}.e30.x`)).toBe(false);
  expect(isSession(`${base64url({ alg: "ES256", typ: "viewer+jwt", kid: "another" })}.e30.x`)).toBe(true);
  expect(await verify(session)).toEqual(CLAIMS);
  expect(session.split(".")[0]).toBe(base64url({ alg: "ES256", typ: "viewer+jwt", kid: KID }));
});

it.each([
  "ugt_0000000000000000000000000000000000000000",
  "eyJ",
  "",
  "eyJ.",
  "eyJhbGciOiJkaXIiLCJlbmMiOiJBMTI4R0NNIn0.a.b.c.d",
  `${base64url({ typ: "JWT", alg: "ES256" })}.e30.x`,
  `eyJ${"A".repeat(9000)}`,
])("isSession returns false for %j", (text) => {
  expect(isSession(text)).toBe(false);
});

describe("session verification", () => {
  it.each([
    [0, "valid"],
    [599.9, "valid"],
    // A session must not stay valid after the grace period of its token, so the expiry time has no tolerance.
    [600, "expired"],
    [-5, "valid"],
    [-5.1, "tooEarly"],
    [1e6, "expired"],
  ])("the verification of a session of ten minutes, %d s after its creation, has the result %s", async (at, result) => {
    const session = await sign();
    const verifier = new SessionVerifier();
    await verify(session, { verifier });
    for (const how of [{ at }, { at, verifier }]) {
      if (result === "valid") expect(await verify(session, how)).toEqual(CLAIMS);
      else expect(await refusalOf(verify(session, how))).toBe(result);
    }
  });

  it("rejects a session with a lifetime of more than an hour", async () => {
    expect(await verify(await sign({ exp: SECONDS + 3600 }))).toBeDefined();
    expect(await refusalOf(verify(await sign({ exp: SECONDS + 3601 })))).toBe("malformed");
  });
});

describe("forged sessions", () => {
  const header = () => ({ alg: "ES256", typ: "viewer+jwt", kid: KID });
  const signature = "A".repeat(86);

  it("a session is rejected if its algorithm is none, or is HS256 with the public key as the secret", async () => {
    const { publicKey } = await generateKeyPair("ES256", { extractable: true });
    const spki = await exportSPKI(publicKey);
    const none = { ...header(), alg: "none" };
    const hs256 = { ...header(), alg: "HS256" };
    const signed = `${base64url(hs256)}.${base64url(CLAIMS)}`;
    const mac = createHmac("sha256", spki).update(signed).digest("base64url");
    for (const session of [
      `${base64url(none)}.${base64url(CLAIMS)}.`,
      `${base64url(none)}.${base64url(CLAIMS)}.${signature}`,
      `${signed}.${mac}`,
      `${signed}.${signature}`,
    ]) {
      expect(isSession(session)).toBe(true);
      expect(await refusalOf(verify(session))).toBe("malformed");
    }
  });

  it("a session is rejected if it has an unknown key, a signature by another key, or a changed claim", async () => {
    const other = jwkOf(await newKeyPair());
    expect(await refusalOf(verify(await signSession(CLAIMS, { kid: newKeyId(), key: other })))).toBe("unknownKey");
    expect(await refusalOf(verify(await signSession(CLAIMS, { kid: KID, key: other })))).toBe("signature");
    const [head, , sig] = (await sign()).split(".");
    const changed = `${head}.${base64url({ ...CLAIMS, sub: "b" })}.${sig}`;
    expect(await refusalOf(verify(changed))).toBe("signature");
  });

  it("a session of another environment is rejected before the verifier looks up the key", async () => {
    const iss = issuerOf("https://groups.example.com", "acme/Testing");
    let isAsked = false;
    const keyOf = async () => {
      isAsked = true;
      return jwkOf(pair);
    };
    const session = await sign({ iss });
    const seen = new SessionVerifier().verify(session, { issuer: ISSUER, keyOf });
    expect([await refusalOf(seen), isAsked]).toEqual(["otherEnvironment", false]);
  });
});

describe("equivalent ECDSA signatures", () => {
  it("the second valid ECDSA signature of a session is accepted, and `verify` returns the same jti", async () => {
    const session = await sign();
    const [head, payload, signature = ""] = session.split(".");
    const bytes = Buffer.from(signature, "base64url");
    const s = ORDER - BigInt(`0x${bytes.subarray(32).toString("hex")}`);
    const other = Buffer.concat([bytes.subarray(0, 32), Buffer.from(s.toString(16).padStart(64, "0"), "hex")]);
    const twin = `${head}.${payload}.${other.toString("base64url")}`;
    expect(twin).not.toBe(session);
    expect((await verify(twin)).jti).toBe(CLAIMS.jti);
  });
});

describe("the cache of verified sessions", () => {
  it("returns a cached session only while the key of the session exists", async () => {
    const verifier = new SessionVerifier();
    const session = await sign();
    await verify(session, { verifier });
    expect(verifier.size).toBe(1);
    expect(await verify(session, { verifier })).toEqual(CLAIMS);
    expect(await refusalOf(verify(session, { verifier, keys: [] }))).toBe("unknownKey");
  });

  it("does not accept a session with a changed signature", async () => {
    const verifier = new SessionVerifier();
    const session = await sign();
    await verify(session, { verifier });
    const flipped = session.slice(0, -10) + (session.at(-10) === "A" ? "B" : "A") + session.slice(-9);
    expect(await refusalOf(verify(flipped, { verifier }))).toBe("signature");
    expect(verifier.size).toBe(1);
  });

  it("does not cache a session longer than 2,048 characters", async () => {
    const verifier = new SessionVerifier();
    const long = await sign({ ext: { text: "x".repeat(2000) } });
    expect(await verify(long, { verifier })).toMatchObject({ jti: CLAIMS.jti });
    expect(verifier.size).toBe(0);
  });
});

describe("published documents", () => {
  it("the JWKS document contains the public keys, and no private keys", async () => {
    const { x, y } = pair;
    expect(jwksDocument([{ kid: KID, ...pair }])).toEqual({
      keys: [{ kty: "EC", crv: "P-256", x, y, kid: KID, use: "sig", alg: "ES256" }],
    });
  });

  it("the discovery document contains the URL of the keys of an issuer", () => {
    expect(discoveryDocument(ISSUER)).toMatchObject({
      issuer: "https://groups.example.com/e/acme/Customer",
      jwks_uri: "https://groups.example.com/e/acme/Customer/.well-known/jwks.json",
      // OpenID Connect Discovery requires this member, and some clients refuse an empty list.
      response_types_supported: ["id_token"],
    });
  });
});
