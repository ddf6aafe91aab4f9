import { execFileSync, spawn } from "node:child_process";
import { createHmac, createPublicKey, generateKeyPairSync, type JsonWebKey, sign } from "node:crypto";
import { once } from "node:events";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { beforeAll, describe, expect, it } from "vitest";
import { ADMIN_ENV, adminOf, bearer, customerOf } from "./support/admin.ts";
import { newId } from "./support/matrix.ts";
import { orLeaveOut } from "./support/on-path.ts";
import { newFolder, suiteServer } from "./support/opened.ts";
import { ROOT } from "./support/process.ts";
import { pythonPrograms } from "./support/python.ts";
import { restCalls } from "./support/rest-calls.ts";
import { RUNTIMES } from "./support/server.ts";

const FOLDER = join(ROOT, "test/support/verifiers");

/** What a verifier is asked. */
interface Question {
  readonly session: string;
  readonly issuer: string;
  readonly audience: string;
  /** By how many seconds its clock is ahead. */
  readonly ahead: number;
}

/** What it answers. */
interface Verdict {
  readonly claims?: { readonly [name: string]: unknown };
  readonly error?: string;
}

/** How the libraries call what they refuse. */
const ERRORS = {
  algorithm: { pyjwt: "InvalidAlgorithmError", golang: "signing method" },
  audience: { pyjwt: "InvalidAudienceError", golang: "invalid audience" },
  early: { pyjwt: "ImmatureSignatureError", golang: "before issued" },
  expired: { pyjwt: "ExpiredSignatureError", golang: "expired" },
  key: { pyjwt: "PyJWKClientError", golang: "publishes no such key" },
  signature: { pyjwt: "InvalidSignatureError", golang: "signature is invalid" },
} as const;

const go = orLeaveOut("go", "the verifier in Go is");
const python = pythonPrograms("verifiers", join(FOLDER, "requirements.txt"), "the verifier in Python is");
const VERIFIERS = [
  { name: "pyjwt" as const, isThere: python !== undefined, command: () => [`${python}/python`, `${FOLDER}/verify.py`] },
  { name: "golang" as const, isThere: go !== undefined, command: () => [goProgram()] },
].filter(({ isThere }) => isThere);

/** Builds the verifier in Go. */
function goProgram(): string {
  const program = join(newFolder(), "verifier");
  execFileSync(go ?? "", ["build", "-o", program, "."], { cwd: join(FOLDER, "go"), stdio: "inherit" });
  return program;
}

/** Asks a verifier all questions at once. */
async function verdictsOf([program = "", ...args]: readonly string[], questions: readonly Question[]) {
  const child = spawn(program, args, { stdio: ["pipe", "pipe", "inherit"] });
  child.stdin.end(questions.map((question) => `${JSON.stringify(question)}\n`).join(""));
  const [output, [code]] = await Promise.all([text(child.stdout), once(child, "exit")]);
  expect(code).toBe(0);
  return output
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Verdict);
}

const TTL_S = 600;
const AUDIENCE = "dashboards";

const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
const decoded = (part = "") => JSON.parse(Buffer.from(part, "base64url").toString()) as Record<string, unknown>;

describe.each(RUNTIMES)("sessions that a server on %s made", (runtime) => {
  const server = suiteServer({ runtime, env: ADMIN_ENV });
  const { call } = restCalls(server);
  let good: string;
  let ended: string;
  let ofTesting: string;
  const id = newId();

  /** Makes a group and a session of it. */
  async function sessionOf(user_group_id: string, apiToken = server.tokens.customer): Promise<string> {
    const headers = bearer(apiToken);
    await call("GET", { user_group_id }, { headers });
    const request = { user_group_id, audience: AUDIENCE, ttl: `${TTL_S}s` };
    const answer = await call("POST", request, { headers, target: "/api/viewer/session" });
    expect(answer.status, answer.body.toString()).toBe(200);
    return answer.json<{ session: string }>().session;
  }

  beforeAll(async () => {
    const other = newId();
    [good, ended, ofTesting] = [
      await sessionOf(id),
      await sessionOf(other),
      await sessionOf(other, server.tokens.testing),
    ];
    await adminOf(server.url).revokeUserGroupTokens({ environment: customerOf(server), userGroupId: other });
    const asked = await call("POST", { token: ended }, { target: "/api/viewer" });
    expect(asked.json()).toEqual({ active: false });
  });

  // Go compiles for minutes the first time.
  it.each(VERIFIERS)("are verified by $name from what is published alone", { timeout: 600_000 }, async (verifier) => {
    const { name } = verifier;
    const program = verifier.command();
    const [header = "", payload = ""] = good.split(".");
    const { kid, typ } = decoded(header);
    const { iss: issuer, exp } = decoded(payload) as { iss: string; exp: number };
    const published = (await (await fetch(`${issuer}/.well-known/jwks.json`)).json()) as {
      keys: (JsonWebKey & { kid: string })[];
    };
    const key = published.keys.find((one) => one.kid === kid);
    const pem = createPublicKey({ key: key as JsonWebKey, format: "jwk" }).export({ type: "spki", format: "pem" });
    const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });

    /** The good session, with another header, signed by another key. */
    const forged = (fields: object, signed: (text: string) => Buffer, claims = payload) => {
      const start = `${encoded({ alg: "ES256", kid, typ, ...fields })}.${claims}`;
      return `${start}.${signed(start).toString("base64url")}`;
    };
    const byAnotherKey = (start: string) =>
      sign("sha256", Buffer.from(start), { key: privateKey, dsaEncoding: "ieee-p1363" });
    const byPublicKey = (start: string) => createHmac("sha256", pem).update(start).digest();
    const changed = [header, encoded({ ...decoded(payload), sub: "another" }), good.split(".")[2]].join(".");

    const session = (given: string, more: Partial<Question> = {}) => {
      return { issuer, audience: AUDIENCE, ahead: 0, ...more, session: given };
    };
    // The programs look at their clocks soon after this: Go has compiled.
    const left = Math.ceil(exp - Date.now() / 1000);
    const cases: readonly (readonly [string, Question, (typeof ERRORS)[keyof typeof ERRORS] | undefined])[] = [
      ["a good one", session(good), undefined],
      // Who does not ask the service is told by the end of the session alone.
      ["one that was ended", session(ended), undefined],
      // The verifiers allow for clocks that differ by a minute.
      ["one that expired just now", session(good, { ahead: left + 20 }), undefined],
      ["an expired one", session(good, { ahead: left + 120 }), ERRORS.expired],
      ["one of a clock that is a little ahead", session(good, { ahead: left - TTL_S - 30 }), undefined],
      ["one of a clock that is far ahead", session(good, { ahead: left - TTL_S - 300 }), ERRORS.early],
      ["one for another audience", session(good, { audience: "reports" }), ERRORS.audience],
      ["one of another environment", session(ofTesting), ERRORS.key],
      ["one by a key that is gone", session(forged({ kid: "gone" }, byAnotherKey)), ERRORS.key],
      ["one by another key under the same name", session(forged({}, byAnotherKey)), ERRORS.signature],
      ["one that was changed", session(changed), ERRORS.signature],
      ["one without a signature", session(forged({ alg: "none" }, () => Buffer.alloc(0))), ERRORS.algorithm],
      ["one by HS256 and the public key", session(forged({ alg: "HS256" }, byPublicKey)), ERRORS.algorithm],
    ];
    const verdicts = await verdictsOf(
      program,
      cases.map(([, question]) => question),
    );
    for (const [i, [title, , expected]] of cases.entries()) {
      const { claims, error = "" } = verdicts[i] ?? {};
      if (expected) expect(error, title).toContain(expected[name]);
      else expect([claims?.["iss"], claims?.["aud"], error], title).toEqual([issuer, AUDIENCE, ""]);
    }
    expect(verdicts[0]?.claims).toMatchObject({ sub: id, jti: expect.stringMatching(/./) });
  });
});
