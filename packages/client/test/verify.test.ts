import { generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { forSuite, newListener } from "@user-group-service/testing/opened";
import { ROOT } from "@user-group-service/testing/process";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { newId } from "../../../test/support/matrix.ts";
import { sharedServer } from "../../../test/support/opened.ts";
import {
  createUserGroupServiceClient,
  SessionKeysError,
  type VerifyOptions,
  ViewerSessionError,
  verifyViewerSession,
} from "../src/index.ts";

const AUDIENCE = "dashboards";

const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
const decoded = (part = "") => JSON.parse(Buffer.from(part, "base64url").toString()) as Record<string, unknown>;

function newKey(kid: string) {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  return { privateKey, jwk: { ...publicKey.export({ format: "jwk" }), kid } };
}

const suite: {
  readonly now: number;
  readonly issuer: string;
  readonly audience: string;
  readonly keys: readonly object[];
  readonly cases: readonly { name: string; session: string; at?: number; refused?: string }[];
} = JSON.parse(readFileSync(join(ROOT, "test/fixtures/viewer-sessions.json"), "utf8"));

const refusalOf = async (session: string, options: VerifyOptions) => {
  const error = await verifyViewerSession(session, options).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(ViewerSessionError);
  return (error as ViewerSessionError).refusal;
};

describe("verification of viewer sessions", () => {
  const server = sharedServer();
  const client = forSuite(
    () => createUserGroupServiceClient({ url: server.url, token: server.tokens.customer }),
    ({ close }) => close(),
  );
  const id = newId();
  let session: string;
  let options: VerifyOptions;

  beforeAll(async () => {
    const { viewers, userGroups } = client;
    await userGroups.getUserGroup({ userGroupId: id, properties: { plan: "gold", secret: "x" } });
    const made = await viewers.createViewerSession({
      group: { case: "userGroupId", value: id },
      audience: AUDIENCE,
      viewerId: "bob",
      origin: "https://app.example.com",
      propertyKeys: ["plan"],
      claims: { theme: "dark" },
    });
    session = made.session;
    options = { issuer: `${server.url}/e/${server.environment}/Customer`, audience: AUDIENCE };
  });
  afterEach(() => void vi.useRealTimers());

  /** Changes header fields and claims of the session. Returns the changed session, signed with `key`. */
  const signed = (key: KeyObject, header: object = {}, claims: object = {}) => {
    const [head, payload] = session.split(".");
    const text = `${encoded({ ...decoded(head), ...header })}.${encoded({ ...decoded(payload), ...claims })}`;
    return `${text}.${sign("sha256", Buffer.from(text), { key, dsaEncoding: "ieee-p1363" }).toString("base64url")}`;
  };

  it("a valid session is accepted, and verification returns the claims of the request", async () => {
    const verified = await verifyViewerSession(session, options);
    const { id: jti, createTime, expireTime, teamId, ...rest } = verified;
    expect(rest).toEqual({
      issuer: options.issuer,
      audience: AUDIENCE,
      userGroupId: id,
      viewerId: "bob",
      origin: "https://app.example.com",
      properties: { plan: "gold" },
      claims: { theme: "dark" },
    });
    expect(jti).not.toBe("");
    expect(teamId).toBeGreaterThan(0);
    expect(expireTime.getTime() - createTime.getTime()).toBe(600_000);
  });

  it("a session is accepted if its issuer is one of several issuers, and rejected if its issuer is any other issuer", async () => {
    const others = [`${server.url}/e/other/Customer`, `${server.url}/e/${server.environment}/Testing`];
    await verifyViewerSession(session, { ...options, issuer: [...others, options.issuer as string] });
    expect(await refusalOf(session, { ...options, issuer: others })).toBe("wrong-issuer");
  });

  it("a session is rejected if it is malformed, or has another audience, key or algorithm", async () => {
    expect(await refusalOf(session, { ...options, audience: "others" })).toBe("wrong-audience");
    expect(await refusalOf(`${session.slice(0, -8)}AAAAAAAA`, options)).toBe("wrong-signature");
    const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
    expect(await refusalOf(signed(privateKey), options)).toBe("wrong-signature");
    expect(await refusalOf(signed(privateKey, { kid: "A".repeat(22) }), options)).toBe("unknown-key");
    for (const alg of ["none", "HS256", "RS256", "ES384"])
      expect(await refusalOf(signed(privateKey, { alg }), options), alg).toBe("malformed");
    for (const text of ["", "ugt_notasession", "a.b.c", "x".repeat(9000)])
      expect(await refusalOf(text, options)).toBe("malformed");
    expect(await refusalOf(undefined as unknown as string, options)).toBe("malformed");
  });

  it("a session is accepted with clock differences of up to five seconds", async () => {
    const { createTime, expireTime } = await verifyViewerSession(session, options);
    vi.useFakeTimers({ toFake: ["Date"] });
    vi.setSystemTime(expireTime.getTime() + 4000);
    await verifyViewerSession(session, options);
    vi.setSystemTime(expireTime.getTime() + 6000);
    expect(await refusalOf(session, options)).toBe("expired");
    vi.setSystemTime(createTime.getTime() - 4000);
    await verifyViewerSession(session, options);
    vi.setSystemTime(createTime.getTime() - 7000);
    expect(await refusalOf(session, options)).toBe("too-early");
  });

  it("sessions are verified with keys from keysUrl, and the keys are read only once", async () => {
    let reads = 0;
    const between = createServer(async (req, res) => {
      reads += 1;
      res.end(await (await fetch(`${server.url}${req.url}`)).text());
    });
    const keysUrl = `${await newListener(between)}${new URL(`${options.issuer}/.well-known/jwks.json`).pathname}`;
    await Promise.all(Array.from({ length: 5 }, () => verifyViewerSession(session, { ...options, keysUrl })));
    await verifyViewerSession(session, { ...options, keysUrl });
    expect(reads).toBe(1);
  });

  it("verification fails with a SessionKeysError if the keys cannot be read", async () => {
    const broken = createServer((req, res) => {
      const [, status] = /^\/(\d{3})$/.exec(req.url ?? "") ?? [];
      if (status !== undefined) res.writeHead(Number(status)).end();
      else if (req.url === "/text") res.end("hello");
      else if (req.url === "/json") res.end("{}");
    });
    const base = await newListener(broken);
    for (const status of [204, 302, 304, 404]) {
      const checked = verifyViewerSession(session, { ...options, keysUrl: `${base}/${status}` });
      await expect(checked, String(status)).rejects.toThrow(/200 OK/);
    }
    for (const url of [`${base}/404`, `${base}/text`, `${base}/json`, `${base}/hangs`, "http://127.0.0.1:1/"]) {
      const checked = verifyViewerSession(session, { ...options, keysUrl: url, timeoutMs: 200 });
      await expect(checked, url).rejects.toThrow(SessionKeysError);
    }
  });

  it("a failing issuer causes at most one read of the keys per second, and sessions with cached keys are accepted", async () => {
    const { pathname } = new URL(`${options.issuer}/.well-known/jwks.json`);
    let isAway = true;
    let reads = 0;
    const between = createServer(async (_, res) => {
      reads += 1;
      if (isAway) res.writeHead(503).end();
      else res.end(await (await fetch(`${server.url}${pathname}`)).text());
    });
    const own = { ...options, keysUrl: await newListener(between) };
    vi.useFakeTimers({ toFake: ["Date", "performance"] });
    for (let i = 0; i < 5; i++) await expect(verifyViewerSession(session, own)).rejects.toThrow(SessionKeysError);
    expect(reads).toBe(1);
    isAway = false;
    vi.advanceTimersByTime(1000);
    await verifyViewerSession(session, own);
    expect(reads).toBe(2);

    isAway = true;
    vi.advanceTimersByTime(10_000);
    const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
    const strange = signed(privateKey, { kid: "A".repeat(22) });
    for (let i = 0; i < 5; i++) await expect(verifyViewerSession(strange, own)).rejects.toThrow(SessionKeysError);
    await verifyViewerSession(session, own);
    expect(reads).toBe(3);
  });

  it("a session is accepted within a second after its key is published, and the keys are read at most once a second", async () => {
    const [first, second] = [newKey("1"), newKey("2")];
    let published = [first];
    let reads = 0;
    const keys = createServer((_, res) => {
      reads += 1;
      res.end(JSON.stringify({ keys: published.map(({ jwk }) => jwk) }));
    });
    const own = { ...options, keysUrl: await newListener(keys) };
    vi.useFakeTimers({ toFake: ["Date"] });
    const [old, fresh] = [first, second].map(({ privateKey, jwk }) => signed(privateKey, { kid: jwk.kid })) as [
      string,
      string,
    ];
    await verifyViewerSession(old, own);
    for (let i = 0; i < 5; i++) expect(await refusalOf(fresh, own)).toBe("unknown-key");
    expect(reads).toBe(1);
    published = [second];
    vi.advanceTimersByTime(1000);
    await verifyViewerSession(fresh, own);
    expect(await refusalOf(old, own)).toBe("unknown-key");
    expect(reads).toBe(2);
  });

  it("a slow issuer causes a SessionKeysError after timeoutMs, and sessions with cached keys are accepted at once", async () => {
    const { privateKey, jwk } = newKey("1");
    let isDripping = false;
    const keys = createServer((_, res) => {
      if (!isDripping) return void res.end(JSON.stringify({ keys: [jwk] }));
      res.write("{");
      const drip = setInterval(() => res.write(" "), 5);
      res.on("close", () => clearInterval(drip));
    });
    const own = { ...options, keysUrl: await newListener(keys), timeoutMs: 300 };
    const known = signed(privateKey, { kid: jwk.kid });
    await verifyViewerSession(known, own);
    isDripping = true;
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 1000 });
    const requested = once(keys, "request");
    let isOver = false;
    const waiting = verifyViewerSession(signed(privateKey, { kid: "unknown" }), own)
      .catch((error: unknown) => error)
      .finally(() => {
        isOver = true;
      });
    await requested;
    await verifyViewerSession(known, own);
    expect(isOver).toBe(false);
    expect(await waiting).toBeInstanceOf(SessionKeysError);
  });

  it("an endless response with the keys causes an error", async () => {
    const endless = createServer((_, res) => {
      const write = () => {
        while (!res.destroyed && res.write(" ".repeat(65_536)));
      };
      res.on("drain", write);
      write();
    });
    const checked = verifyViewerSession(session, {
      ...options,
      keysUrl: await newListener(endless),
      timeoutMs: 60_000,
    });
    await expect(checked).rejects.toThrow("more than 1048576 bytes");
  });

  it("the error for a rejected session contains the actual and the expected issuer, audience and time", async () => {
    const issuer = options.issuer as string;
    const slashed = issuer.replace("/e/", "//e/");
    const why = (given: unknown, wrong: Partial<VerifyOptions> = {}) =>
      verifyViewerSession(given as string, { ...options, ...wrong }).catch(({ message }: Error) => message);
    expect(await why(session, { issuer: slashed })).toContain(`"${issuer}", not "${slashed}"`);
    expect(await why(session, { audience: "dashboard" })).toContain('"dashboards", not "dashboard"');
    expect(await why(Promise.resolve({ session }))).toContain("await the response");
    const { createTime, expireTime } = await verifyViewerSession(session, options);
    vi.useFakeTimers({ toFake: ["Date"] });
    vi.setSystemTime(createTime.getTime() - 120_000);
    expect(await why(session)).toContain("120 s");
    vi.setSystemTime(expireTime.getTime() + 120_000);
    expect(await why(session)).toContain("120 s");
  });

  it("every session is rejected if the options contain no issuer or no audience", async () => {
    for (const wrong of [
      { issuer: "" },
      { issuer: [] },
      { issuer: undefined },
      { audience: "" },
      { audience: undefined },
    ])
      await expect(verifyViewerSession(session, { ...options, ...wrong } as VerifyOptions)).rejects.toThrow(
        /must be set/,
      );
    await expect(verifyViewerSession(session, undefined as unknown as VerifyOptions)).rejects.toThrow(/must be set/);
  });
});

describe("verifyViewerSession with the sessions in viewer-sessions.json", () => {
  const keys = createServer((_, res) => void res.end(JSON.stringify({ keys: suite.keys })));
  beforeAll(() => once(keys.listen(0, "127.0.0.1"), "listening"));
  afterAll(() => void keys.close());
  afterEach(() => void vi.useRealTimers());

  it.each(suite.cases)(
    "has the expected outcome for $name (refusal: $refused)",
    async ({ session, at = suite.now, refused }) => {
      const { issuer, audience } = suite;
      const keysUrl = `http://127.0.0.1:${(keys.address() as AddressInfo).port}/`;
      vi.useFakeTimers({ toFake: ["Date"], now: at * 1000 });
      if (refused === undefined) await verifyViewerSession(session, { issuer, audience, keysUrl });
      else expect(await refusalOf(session, { issuer, audience, keysUrl })).toBe(refused);
    },
  );
});
