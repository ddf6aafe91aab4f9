// Writes test/fixtures/viewer-sessions.json. The file contains valid and invalid viewer sessions for the tests of
// verifiers. The keys are only for these tests. ECDSA creates a different signature each time, even for the same data.
// The script reuses the signatures of the existing file, so that unchanged cases stay the same.
import { createECDH, createHash, createPrivateKey, sign } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const FILE = fileURLToPath(new URL("../test/fixtures/viewer-sessions.json", import.meta.url));
const ISSUER = "https://groups.example.com/e/acme/Customer";
const AUDIENCE = "dashboards";
/**
 * The time at which a case is verified, in seconds since 1970. If a case has the field `at`, `at` replaces this time.
 */
const NOW = 1_800_000_000;

/** Returns a P-256 key pair. The private number is a digest of the key id, so every run returns the same key pair. */
function testKey(kid) {
  const ecdh = createECDH("prime256v1");
  const d = createHash("sha256").update(kid).digest();
  ecdh.setPrivateKey(d);
  const point = ecdh.getPublicKey();
  const text = (bytes) => bytes.toString("base64url");
  const jwk = { kty: "EC", crv: "P-256", x: text(point.subarray(1, 33)), y: text(point.subarray(33)) };
  return {
    published: { ...jwk, kid, use: "sig", alg: "ES256" },
    key: createPrivateKey({ key: { ...jwk, d: text(d) }, format: "jwk" }),
  };
}

const KID = "first-key-of-the-tests";
const OTHER_KID = "other-key-of-the-tests";
const RSA_KID = "a-key-of-RSA-for-tests";
const keys = { [KID]: testKey(KID), [OTHER_KID]: testKey(OTHER_KID) };
const rsa = { kty: "RSA", n: "y".repeat(342), e: "AQAB", kid: RSA_KID, use: "sig", alg: "RS256" };

/** Maps signed data to the existing signature of the data. */
const known = new Map();
try {
  for (const { session } of JSON.parse(readFileSync(FILE, "utf8")).cases) {
    const [, input, signature] = /^(.+\..+)\.([\w-]{86})$/s.exec(session) ?? [];
    if (input && !known.has(input)) known.set(input, signature);
  }
} catch (error) {
  if (error.code !== "ENOENT") throw error;
}

const base64url = (text) => Buffer.from(text).toString("base64url");
const HEADER = { alg: "ES256", typ: "viewer+jwt", kid: KID };
const CLAIMS = { iss: ISSUER, aud: AUDIENCE, sub: "acme", tid: 7, gen: 0, jti: "j1", iat: NOW, exp: NOW + 600 };

function signed(head, payload, key = keys[KID].key) {
  const input = `${head}.${payload}`;
  if (!known.has(input)) {
    known.set(input, sign("sha256", Buffer.from(input), { key, dsaEncoding: "ieee-p1363" }).toString("base64url"));
  }
  return `${input}.${known.get(input)}`;
}

const withHeader = (text) => signed(base64url(text), base64url(JSON.stringify(CLAIMS)));
const withHeaders = (more) => withHeader(JSON.stringify({ ...HEADER, ...more }));
const withPayload = (text) => signed(base64url(JSON.stringify(HEADER)), base64url(text));
const withClaims = (more) => withPayload(JSON.stringify({ ...CLAIMS, ...more }));
/** Returns a session. The value of the claim `name` is `text`, which is JSON. Does not parse or format `text`. */
const withClaim = (name, text) =>
  withPayload(JSON.stringify({ ...CLAIMS, [name]: "HERE" }).replace('"HERE"', () => text));

const cases = [];
const taken = (name, session, options = {}) => cases.push({ name, session, ...options });
const refused = (refusal, name, session, options = {}) => cases.push({ name, session, refused: refusal, ...options });

const good = withClaims({});
const [head, payload, signature] = good.split(".");

taken("the required claims alone", good);
taken(
  "all claims",
  withClaims({
    vid: "bob",
    origin: "https://app.example.com",
    properties: { plan: "gold", seats: 1.5 },
    ext: { theme: [null, true, { a: "b" }] },
  }),
);
taken("text beyond ASCII", withClaims({ sub: "ä 日本 😀", vid: "\ufffd", ext: { "\u2028": "😀" } }));
taken("text with escapes", withClaim("vid", String.raw`"\u0061\ud83d\ude00\\ud800\/"`));
taken("empty objects", withClaims({ properties: {}, ext: {} }));
taken("32 levels of objects", withClaim("ext", `${'{"a":'.repeat(32)}0${"}".repeat(32)}`));
taken("the largest safe integer", withClaims({ tid: 2 ** 53 - 1 }));
taken("an integer written with a fraction", withClaim("exp", `${NOW + 600}.0`));
taken("an integer written with an exponent", withClaim("tid", "70e-1"));
taken("an unknown claim", withClaims({ later: { a: [1] } }));
taken("a session of one hour", withClaims({ exp: NOW + 3600 }));
taken("a session that expires in a second", good, { at: NOW + 599 });
taken("a session created by a clock that is four seconds ahead", good, { at: NOW - 4 });
taken(
  "a session signed with another published key",
  signed(base64url(JSON.stringify({ ...HEADER, kid: OTHER_KID })), payload, keys[OTHER_KID].key),
);
{
  // If (r, s) is a valid ECDSA signature, (r, n - s) is a valid signature of the same data.
  const order = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n;
  const bytes = Buffer.from(signature, "base64url");
  const s = order - BigInt(`0x${bytes.subarray(32).toString("hex")}`);
  const other = Buffer.concat([bytes.subarray(0, 32), Buffer.from(s.toString(16).padStart(64, "0"), "hex")]);
  taken("the equivalent signature with high s", `${head}.${payload}.${other.toString("base64url")}`);
}

refused("expired", "an expired session", good, { at: NOW + 606 });
refused("expired", "a session that expired long ago", withClaims({ iat: 0, exp: 600 }));
refused("too-early", "a session created in the future", good, { at: NOW - 6 });
refused(
  "wrong-issuer",
  "a session of another environment",
  withClaims({ iss: "https://groups.example.com/e/acme/Testing" }),
);
refused("wrong-issuer", "an issuer with an extra slash", withClaims({ iss: `${ISSUER}/` }));
refused("wrong-issuer", "an issuer in another case", withClaims({ iss: ISSUER.replace("acme", "Acme") }));
refused("wrong-audience", "another audience", withClaims({ aud: "reports" }));
refused("wrong-audience", "an audience that starts with the expected audience", withClaims({ aud: `${AUDIENCE}2` }));
refused("wrong-audience", "an empty audience", withClaims({ aud: "" }));
refused("unknown-key", "a key that is not published", withHeaders({ kid: "a-third-key-of-the-tes" }));
refused("unknown-key", "a published key of another type", withHeaders({ kid: RSA_KID }));
refused(
  "wrong-signature",
  "a signature by a key that the header does not name",
  signed(head, base64url(JSON.stringify({ ...CLAIMS, jti: "j2" })), keys[OTHER_KID].key),
);
refused(
  "wrong-signature",
  "a modified claim",
  `${head}.${base64url(JSON.stringify({ ...CLAIMS, sub: "other" }))}.${signature}`,
);
refused("wrong-signature", "a signature of zeros", `${head}.${payload}.${"A".repeat(86)}`);
{
  const bytes = Buffer.from(signature, "base64url");
  const swapped = Buffer.concat([bytes.subarray(32), bytes.subarray(0, 32)]).toString("base64url");
  refused("wrong-signature", "a signature with swapped halves", `${head}.${payload}.${swapped}`);
}

const malformed = (name, session) => refused("malformed", name, session);
malformed("an empty string", "");
malformed("a user group token", "ugt_0000000000000000000000000000000000000000");
malformed("three letters separated by dots", "a.b.c");
malformed("letters beyond ASCII", "é.é.é");
malformed("a JWT with two parts", `${head}.${payload}`);
malformed("a JWT with four parts", `${good}.${signature}`);
malformed("a dot at the end", `${good}.`);
malformed("an empty signature", `${head}.${payload}.`);
malformed("a truncated signature", good.slice(0, -1));
malformed("a signature with an extra character", `${good}A`);
malformed("a line break at the end", `${good}\n`);
malformed("white space at the end", `${good} `);
malformed("white space at the start", ` ${good}`);
malformed("white space in the signature", `${head}.${payload}.${signature.slice(0, 43)}\n${signature.slice(43)}`);
malformed("padding after the signature", `${good}==`);
malformed("nonzero unused bits in the signature", good.slice(0, -1) + { A: "B", Q: "R", g: "h", w: "x" }[good.at(-1)]);
malformed(
  "a character that Python treats as a letter",
  `${head}.${payload}.${signature.slice(0, -2)}ª${signature.slice(-1)}`,
);
{
  // The lengths of the claims and of the header are one byte above a multiple of three. So the base64 of each part has
  // unused bits, and needs padding in standard base64.
  const spare = (text) => (text.length % 3 === 1 ? text : null);
  const long =
    spare(JSON.stringify(CLAIMS)) ??
    spare(JSON.stringify({ ...CLAIMS, jti: "j12" })) ??
    JSON.stringify({ ...CLAIMS, jti: "j123" });
  const part = base64url(long);
  malformed("padding after the claims", signed(head, `${part}==`));
  malformed(
    "nonzero unused bits in the claims",
    signed(head, part.slice(0, -1) + String.fromCharCode(part.charCodeAt(part.length - 1) + 1)),
  );
  const other = base64url(JSON.stringify({ ...CLAIMS, sub: "~~~???>>>" }));
  malformed("the base64 alphabet instead of base64url", signed(head, other.replaceAll("-", "+").replaceAll("_", "/")));
  malformed("a line break in the claims", signed(head, `${payload.slice(0, 40)}\n${payload.slice(40)}`));
  const text = JSON.stringify(HEADER);
  const kid = KID.slice(0, KID.length - (text.length % 3 === 0 ? 2 : text.length % 3 === 2 ? 1 : 0));
  const header = base64url(JSON.stringify({ ...HEADER, kid }));
  malformed("padding after the header", signed(`${header}==`, payload));
  malformed(
    "nonzero unused bits in the header",
    signed(header.slice(0, -1) + String.fromCharCode(header.charCodeAt(header.length - 1) + 1), payload),
  );
}
malformed("a session of more than 8192 characters", withClaims({ ext: { text: "x".repeat(6000) } }));

for (const alg of ["none", "HS256", "RS256", "ES384", "es256", "", null, ["ES256"]])
  malformed(`alg ${JSON.stringify(alg)}`, withHeaders({ alg }));
malformed("alg none without a signature", `${base64url(JSON.stringify({ ...HEADER, alg: "none" }))}.${payload}.`);
for (const typ of ["JWT", "VIEWER+JWT", "application/viewer+jwt", "", null, undefined])
  malformed(`typ ${JSON.stringify(typ)}`, withHeaders({ typ }));
for (const kid of [1, "", null, [KID], undefined]) malformed(`kid ${JSON.stringify(kid)}`, withHeaders({ kid }));
for (const [name, value] of Object.entries({
  crit: ["exp"],
  b64: false,
  jwk: keys[OTHER_KID].published,
  jku: "https://elsewhere.example/jwks.json",
  x5u: "https://elsewhere.example/",
  x5c: ["MIIB"],
  zip: "DEF",
  cty: "JWT",
  other: 1,
}))
  malformed(`a header with ${name}`, withHeaders({ [name]: value }));
malformed("a header with crit and b64", withHeaders({ crit: ["b64"], b64: false }));
malformed("a header with a duplicate member", withHeader(`{"alg":"none",${JSON.stringify(HEADER).slice(1)}`));
malformed("a header with names in another case", withHeader(JSON.stringify(HEADER).replace('"alg"', '"ALG"')));
malformed("a header with a second kid in another case", withHeader(JSON.stringify({ ...HEADER, KID: OTHER_KID })));
for (const text of ["[]", '"ES256"', "null", "{}", "{", "\ufeff{}"])
  malformed(`the header ${JSON.stringify(text)}`, withHeader(text));
malformed("a byte order mark before the header", withHeader(`\ufeff${JSON.stringify(HEADER)}`));
malformed("a header of more than 256 characters", withHeader(JSON.stringify(HEADER) + " ".repeat(200)));

for (const text of ["[]", '"acme"', "null", "{}", "{", "not JSON"])
  malformed(`the claims ${JSON.stringify(text)}`, withPayload(text));
malformed("a byte order mark before the claims", withPayload(`\ufeff${JSON.stringify(CLAIMS)}`));
malformed("text after the claims", withPayload(`${JSON.stringify(CLAIMS)}{}`));
malformed(
  "claims that are not UTF-8",
  withPayload(Buffer.from(JSON.stringify({ ...CLAIMS, vid: "\u00ff" }), "latin1")),
);
malformed("a claim twice", withPayload(`{"sub":"other",${JSON.stringify(CLAIMS).slice(1)}`));
malformed(
  "a duplicate claim, one of the names with an escape",
  withPayload(String.raw`{"s\u0075b":"other",` + JSON.stringify(CLAIMS).slice(1)),
);
malformed("a duplicate member in a claim", withClaim("ext", '{"a":[{"b":1,"b":1}]}'));
for (const name of ["iss", "aud", "sub", "tid", "gen", "jti", "iat", "exp"]) {
  malformed(`no ${name}`, withClaims({ [name]: undefined }));
  malformed(`${name} in another case`, withClaims({ [name]: undefined, [name.toUpperCase()]: CLAIMS[name] }));
  malformed(`${name} as a list`, withClaims({ [name]: [CLAIMS[name]] }));
}
for (const name of ["iss", "aud", "sub", "jti", "vid", "origin"]) {
  for (const value of [null, 1, true, {}]) malformed(`${name} ${JSON.stringify(value)}`, withClaims({ [name]: value }));
  malformed(`${name} with an unpaired surrogate`, withClaim(name, String.raw`"\ud800"`));
}
for (const name of ["tid", "gen", "iat", "exp"]) {
  for (const value of [null, true, String(CLAIMS[name]), {}, CLAIMS[name] + 0.5])
    malformed(`${name} ${JSON.stringify(value)}`, withClaims({ [name]: value }));
  for (const text of ["1e400", "-1e400", "9007199254740992", `1${"0".repeat(30)}`, "NaN", "Infinity", "007"])
    malformed(`${name} ${text}`, withClaim(name, text));
}
for (const name of ["properties", "ext"]) {
  for (const value of [null, [], [1], "text", 1, true])
    malformed(`${name} ${JSON.stringify(value)}`, withClaims({ [name]: value }));
  malformed(`${name} with a number out of range`, withClaim(name, '{"a":[1e999]}'));
  malformed(`${name} with an integer out of range`, withClaim(name, `{"a":1${"0".repeat(400)}}`));
  malformed(`${name} with an unpaired surrogate`, withClaim(name, String.raw`{"a":"\udc00"}`));
  malformed(`${name} with an unpaired surrogate in a member name`, withClaim(name, String.raw`{"\ud800\u0041":1}`));
  for (const depth of [33, 900])
    malformed(`${name} with ${depth} levels`, withClaim(name, `${'{"":'.repeat(depth)}0${"}".repeat(depth)}`));
}
malformed("lists with 2000 levels", withClaim("later", "[".repeat(2000) + "]".repeat(2000)));
malformed("a late exp that makes the lifetime longer than an hour", withClaims({ exp: NOW + 3601 }));
malformed("an early iat that makes the lifetime longer than an hour", withClaims({ iat: NOW - 3001 }));
for (const nbf of [NOW + 60, NOW - 60, "now", null]) malformed(`nbf ${JSON.stringify(nbf)}`, withClaims({ nbf }));

const names = cases.map(({ name }) => name);
const twice = names.filter((name, i) => names.indexOf(name) !== i);
if (twice.length > 0) throw new Error(`two cases have the name ${twice}`);
const suite = {
  now: NOW,
  issuer: ISSUER,
  audience: AUDIENCE,
  keys: [...Object.values(keys).map(({ published }) => published), rsa],
};
const lines = cases.map((each) => `    ${JSON.stringify(each)}`).join(",\n");
const start = JSON.stringify(suite, null, 2).slice(0, -2);
writeFileSync(FILE, `${start},\n  "cases": [\n${lines}\n  ]\n}\n`);
