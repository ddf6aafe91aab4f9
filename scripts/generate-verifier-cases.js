// Writes test/fixtures/viewer-sessions.json: valid and invalid viewer sessions. All verifiers of this repository are tested
// with them, and other verifiers can be. The keys are only for these tests. ECDSA signatures differ each time, so existing
// signatures of the file stay.
import { createECDH, createHash, createPrivateKey, sign } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const FILE = fileURLToPath(new URL("../test/fixtures/viewer-sessions.json", import.meta.url));
const ISSUER = "https://groups.example.com/e/acme/Customer";
const AUDIENCE = "dashboards";
/** Default time of a case, in seconds since 1970. A case can have its own time as `at`. */
const NOW = 1_800_000_000;

/** Returns a P-256 key pair whose private number is a digest of its id. */
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

/** Existing signatures, by the signed data. */
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

/** Returns a session with the given parts in base64url. */
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
/** Returns a payload with a claim in a given spelling. */
const withClaim = (name, text) =>
  withPayload(JSON.stringify({ ...CLAIMS, [name]: "HERE" }).replace('"HERE"', () => text));

const cases = [];
const taken = (name, session, options = {}) => cases.push({ name, session, ...options });
const refused = (refusal, name, session, options = {}) => cases.push({ name, session, refused: refusal, ...options });

const good = withClaims({});
const [head, payload, signature] = good.split(".");

taken("one with the claims that all have", good);
taken(
  "one with all claims",
  withClaims({
    vid: "bob",
    origin: "https://app.example.com",
    properties: { plan: "gold", seats: 1.5 },
    ext: { theme: [null, true, { a: "b" }] },
  }),
);
taken("texts beyond ASCII", withClaims({ sub: "ä 日本 😀", vid: "\ufffd", ext: { "\u2028": "😀" } }));
taken("texts with escapes", withClaim("vid", String.raw`"\u0061\ud83d\ude00\\ud800\/"`));
taken("empty objects", withClaims({ properties: {}, ext: {} }));
taken("32 levels of objects", withClaim("ext", `${'{"a":'.repeat(32)}0${"}".repeat(32)}`));
taken("the largest whole number", withClaims({ tid: 2 ** 53 - 1 }));
taken("a whole number that is written with a fraction", withClaim("exp", `${NOW + 600}.0`));
taken("a whole number that is written with an exponent", withClaim("tid", "70e-1"));
taken("a claim that is not known", withClaims({ later: { a: [1] } }));
taken("one that lasts an hour", withClaims({ exp: NOW + 3600 }));
taken("one that ends in a second", good, { at: NOW + 599 });
taken("one of a clock that is four seconds ahead", good, { at: NOW - 4 });
taken(
  "one by another key that is published",
  signed(base64url(JSON.stringify({ ...HEADER, kid: OTHER_KID })), payload, keys[OTHER_KID].key),
);
{
  // ECDSA accepts (r, n - s) wherever it accepts (r, s).
  const order = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n;
  const bytes = Buffer.from(signature, "base64url");
  const s = order - BigInt(`0x${bytes.subarray(32).toString("hex")}`);
  const other = Buffer.concat([bytes.subarray(0, 32), Buffer.from(s.toString(16).padStart(64, "0"), "hex")]);
  taken("the other signature that ECDSA accepts", `${head}.${payload}.${other.toString("base64url")}`);
}

refused("expired", "one that has ended", good, { at: NOW + 606 });
refused("expired", "one that ended long ago", withClaims({ iat: 0, exp: 600 }));
refused("too-early", "one of the future", good, { at: NOW - 6 });
refused("wrong-issuer", "one of another environment", withClaims({ iss: "https://groups.example.com/e/acme/Testing" }));
refused("wrong-issuer", "an issuer with a slash more", withClaims({ iss: `${ISSUER}/` }));
refused("wrong-issuer", "an issuer in other letters", withClaims({ iss: ISSUER.replace("acme", "Acme") }));
refused("wrong-audience", "another audience", withClaims({ aud: "reports" }));
refused("wrong-audience", "an audience that begins with the right one", withClaims({ aud: `${AUDIENCE}2` }));
refused("wrong-audience", "no audience", withClaims({ aud: "" }));
refused("unknown-key", "a key that is not published", withHeaders({ kid: "a-third-key-of-the-tes" }));
refused("unknown-key", "a published key of another kind", withHeaders({ kid: RSA_KID }));
refused(
  "wrong-signature",
  "another key than its header names",
  signed(head, base64url(JSON.stringify({ ...CLAIMS, jti: "j2" })), keys[OTHER_KID].key),
);
refused(
  "wrong-signature",
  "a claim that was changed",
  `${head}.${base64url(JSON.stringify({ ...CLAIMS, sub: "other" }))}.${signature}`,
);
refused("wrong-signature", "a signature of zeros", `${head}.${payload}.${"A".repeat(86)}`);
{
  const bytes = Buffer.from(signature, "base64url");
  const swapped = Buffer.concat([bytes.subarray(32), bytes.subarray(0, 32)]).toString("base64url");
  refused("wrong-signature", "a signature whose halves are swapped", `${head}.${payload}.${swapped}`);
}

const malformed = (name, session) => refused("malformed", name, session);
malformed("nothing", "");
malformed("a user group token", "ugt_0000000000000000000000000000000000000000");
malformed("three letters with dots", "a.b.c");
malformed("letters beyond ASCII", "é.é.é");
malformed("two parts", `${head}.${payload}`);
malformed("four parts", `${good}.${signature}`);
malformed("a dot at its end", `${good}.`);
malformed("an empty signature", `${head}.${payload}.`);
malformed("a signature that is cut", good.slice(0, -1));
malformed("a signature that is longer", `${good}A`);
malformed("a line break at its end", `${good}\n`);
malformed("white space at its end", `${good} `);
malformed("white space before it", ` ${good}`);
malformed("white space in its signature", `${head}.${payload}.${signature.slice(0, 43)}\n${signature.slice(43)}`);
malformed("padding of its signature", `${good}==`);
malformed("spare bits of its signature", good.slice(0, -1) + { A: "B", Q: "R", g: "h", w: "x" }[good.at(-1)]);
malformed(
  "a character that Python takes for a letter",
  `${head}.${payload}.${signature.slice(0, -2)}ª${signature.slice(-1)}`,
);
{
  // One byte more than full groups of three, so that both parts have unused bits and would have padding.
  const spare = (text) => (text.length % 3 === 1 ? text : null);
  const long =
    spare(JSON.stringify(CLAIMS)) ??
    spare(JSON.stringify({ ...CLAIMS, jti: "j12" })) ??
    JSON.stringify({ ...CLAIMS, jti: "j123" });
  const part = base64url(long);
  malformed("padding of its claims", signed(head, `${part}==`));
  malformed(
    "spare bits of its claims",
    signed(head, part.slice(0, -1) + String.fromCharCode(part.charCodeAt(part.length - 1) + 1)),
  );
  const other = base64url(JSON.stringify({ ...CLAIMS, sub: "~~~???>>>" }));
  malformed("the alphabet of base64", signed(head, other.replaceAll("-", "+").replaceAll("_", "/")));
  malformed("a line break in its claims", signed(head, `${payload.slice(0, 40)}\n${payload.slice(40)}`));
  const text = JSON.stringify(HEADER);
  const kid = KID.slice(0, KID.length - (text.length % 3 === 0 ? 2 : text.length % 3 === 2 ? 1 : 0));
  const header = base64url(JSON.stringify({ ...HEADER, kid }));
  malformed("padding of its header", signed(`${header}==`, payload));
  malformed(
    "spare bits of its header",
    signed(header.slice(0, -1) + String.fromCharCode(header.charCodeAt(header.length - 1) + 1), payload),
  );
}
malformed("one that is longer than any", withClaims({ ext: { text: "x".repeat(6000) } }));

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
malformed("a header with a member twice", withHeader(`{"alg":"none",${JSON.stringify(HEADER).slice(1)}`));
malformed("a header in other letters", withHeader(JSON.stringify(HEADER).replace('"alg"', '"ALG"')));
malformed("a header with kid in other letters too", withHeader(JSON.stringify({ ...HEADER, KID: OTHER_KID })));
for (const text of ["[]", '"ES256"', "null", "{}", "{", "\ufeff{}"])
  malformed(`the header ${JSON.stringify(text)}`, withHeader(text));
malformed("a byte order mark before its header", withHeader(`\ufeff${JSON.stringify(HEADER)}`));
malformed("a header that is longer than any", withHeader(JSON.stringify(HEADER) + " ".repeat(200)));

for (const text of ["[]", '"acme"', "null", "{}", "{", "not JSON"])
  malformed(`the claims ${JSON.stringify(text)}`, withPayload(text));
malformed("a byte order mark before its claims", withPayload(`\ufeff${JSON.stringify(CLAIMS)}`));
malformed("something behind its claims", withPayload(`${JSON.stringify(CLAIMS)}{}`));
malformed(
  "claims that are not UTF-8",
  withPayload(Buffer.from(JSON.stringify({ ...CLAIMS, vid: "\u00ff" }), "latin1")),
);
malformed("a claim twice", withPayload(`{"sub":"other",${JSON.stringify(CLAIMS).slice(1)}`));
malformed(
  "a claim twice, once with escapes",
  withPayload(String.raw`{"s\u0075b":"other",` + JSON.stringify(CLAIMS).slice(1)),
);
malformed("a member of a claim twice", withClaim("ext", '{"a":[{"b":1,"b":1}]}'));
for (const name of ["iss", "aud", "sub", "tid", "gen", "jti", "iat", "exp"]) {
  malformed(`no ${name}`, withClaims({ [name]: undefined }));
  malformed(`${name} in other letters`, withClaims({ [name]: undefined, [name.toUpperCase()]: CLAIMS[name] }));
  malformed(`${name} as a list`, withClaims({ [name]: [CLAIMS[name]] }));
}
for (const name of ["iss", "aud", "sub", "jti", "vid", "origin"]) {
  for (const value of [null, 1, true, {}]) malformed(`${name} ${JSON.stringify(value)}`, withClaims({ [name]: value }));
  malformed(`${name} with half a character`, withClaim(name, String.raw`"\ud800"`));
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
  malformed(`${name} with a number that no answer can carry`, withClaim(name, '{"a":[1e999]}'));
  malformed(`${name} with a whole number that no answer can carry`, withClaim(name, `{"a":1${"0".repeat(400)}}`));
  malformed(`${name} with half a character`, withClaim(name, String.raw`{"a":"\udc00"}`));
  malformed(`${name} with a name of half a character`, withClaim(name, String.raw`{"\ud800\u0041":1}`));
  for (const depth of [33, 900])
    malformed(`${name} of ${depth} levels`, withClaim(name, `${'{"":'.repeat(depth)}0${"}".repeat(depth)}`));
}
malformed("lists of 2000 levels", withClaim("later", "[".repeat(2000) + "]".repeat(2000)));
malformed("one that lasts longer than an hour", withClaims({ exp: NOW + 3601 }));
malformed("one that was made an hour before", withClaims({ iat: NOW - 3001 }));
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
