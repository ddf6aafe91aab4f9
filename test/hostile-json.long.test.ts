import { unescape as unescapeLeniently } from "node:querystring";
import type { DescMethod } from "@bufbuild/protobuf";
import { envelope, type HttpAnswer, http1, http2On, openHttp2 } from "@user-group-service/testing/http";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { describe, expect, it } from "vitest";
import { AdminService } from "../gen/usergroup/admin/v1/admin_service_pb.ts";
import { UserGroupService } from "../gen/usergroup/v1/user_group_service_pb.ts";
import { ViewerService } from "../gen/usergroup/v1/viewer_service_pb.ts";
import { ADMIN_ENV, bearer } from "./support/admin.ts";
import { newId } from "./support/matrix.ts";
import { sharedServer } from "./support/opened.ts";
import { expectConnectError, expectRestError } from "./support/rest-shape.ts";
import { textPositions } from "./support/text-positions.ts";

const GET_PATH = "/usergroup.v1.UserGroupService/GetUserGroup";

type Refusal = readonly [title: string, body: string | Buffer, reason: string, fields?: readonly string[]];

const REFUSED: readonly Refusal[] = [
  ["text that is not JSON", "user_group_id=a", "MALFORMED_REQUEST"],
  ["truncated JSON", '{"user_group_id":"a"', "MALFORMED_REQUEST"],
  ["two JSON values", '{"user_group_id":"a"}{}', "MALFORMED_REQUEST"],
  ["an array", '["a"]', "MALFORMED_REQUEST"],
  ["a string", '"a"', "MALFORMED_REQUEST"],
  ["null", "null", "MALFORMED_REQUEST"],
  ["a NUL", '{"user_group_id":"a"}\0', "MALFORMED_REQUEST"],
  ["bytes that are not UTF-8", Buffer.from('{"user_group_id":"a\xff"}', "latin1"), "MALFORMED_REQUEST"],
  ["truncated UTF-8", Buffer.from('{"user_group_id":"a\xc3"}', "latin1"), "MALFORMED_REQUEST"],
  ["UTF-8 of a surrogate", Buffer.from('{"user_group_id":"\xed\xa0\x80"}', "latin1"), "MALFORMED_REQUEST"],
  ["UTF-16", Buffer.from('{"user_group_id":"a"}', "utf16le"), "MALFORMED_REQUEST"],
  ["a duplicate key", '{"user_group_id":"a","user_group_id":"b"}', "MALFORMED_REQUEST"],
  ["a duplicate key with an escape", '{"user_group_id":"a","user_group\\u005fid":"b"}', "MALFORMED_REQUEST"],
  ["a duplicate key in properties", '{"user_group_id":"a","properties":{"x":1,"x":1}}', "MALFORMED_REQUEST"],
  [
    "a duplicate key deep in properties",
    '{"user_group_id":"a","properties":{"x":[{"y":1,"z":2,"y":1}]}}',
    "MALFORMED_REQUEST",
  ],
  ["a duplicate key in the mapping", '{"user_group_id":"a","mapping":{"x":"1","x":"2"}}', "MALFORMED_REQUEST"],
  ["__proto__ twice", '{"user_group_id":"a","properties":{"__proto__":1,"__proto__":2}}', "MALFORMED_REQUEST"],
  ["a number that is too large", '{"user_group_id":"a","properties":{"n":1e400}}', "VALIDATION_FAILED", ["properties"]],
  [
    "a number that is too small",
    '{"user_group_id":"a","properties":{"n":[-1e400]}}',
    "VALIDATION_FAILED",
    ["properties"],
  ],
  ["2^53 + 1", '{"user_group_id":"a","properties":{"n":9007199254740993}}', "VALIDATION_FAILED", ["properties"]],
  ["NaN", '{"user_group_id":"a","properties":{"n":NaN}}', "MALFORMED_REQUEST"],
  ["an unpaired surrogate in the id", '{"user_group_id":"\\ud800"}', "MALFORMED_REQUEST", ["user_group_id"]],
  [
    "an unpaired surrogate in properties",
    '{"user_group_id":"a","properties":{"x":["\\udc00"]}}',
    "VALIDATION_FAILED",
    ["properties"],
  ],
  [
    "an unpaired surrogate in a key",
    '{"user_group_id":"a","properties":{"\\ud800x":1}}',
    "VALIDATION_FAILED",
    ["properties"],
  ],
  [
    "an unpaired surrogate in the mapping",
    '{"user_group_id":"a","mapping":{"x":"\\ud800"}}',
    "MALFORMED_REQUEST",
    ["mapping"],
  ],
  [
    "33 levels",
    `{"user_group_id":"a","properties":${'{"a":'.repeat(33)}1${"}".repeat(33)}}`,
    "VALIDATION_FAILED",
    ["properties"],
  ],
];

const METHODS = [UserGroupService, ViewerService, AdminService]
  .flatMap(({ methods }): readonly DescMethod[] => methods)
  .filter(({ input }) => textPositions(input).length > 0);

const { getUserGroup, updateUserGroup, rotateUserGroupToken } = UserGroupService.method;
const REST = new Map<DescMethod, readonly [httpMethod: string, path: string]>([
  [getUserGroup, ["GET", "/api/user"]],
  [updateUserGroup, ["PUT", "/api/user"]],
  [rotateUserGroupToken, ["POST", "/api/user"]],
  [ViewerService.method.resolveViewer, ["POST", "/api/viewer"]],
]);

/** Fields that REST reads from headers. The test skips them, because a header contains bytes, not Unicode text. */
const IN_HEADERS: ReadonlySet<string> = new Set(["etag", "request_id"]);

/** An encoding of requests, the methods that the test calls in this encoding, and the paths of the methods. */
interface Way {
  readonly name: string;
  readonly type: string;
  readonly isBinary: boolean;
  readonly isEnveloped: boolean;
  readonly methods: readonly DescMethod[];
  readonly pathOf: (method: DescMethod) => readonly [httpMethod: string, path: string];
}

const WAYS: readonly Way[] = [
  ...(["grpc+", "grpc-web+", ""] as const).flatMap((protocol) =>
    (["proto", "json"] as const).map(
      (codec): Way => ({
        name: `application/${protocol}${codec}`,
        type: `application/${protocol}${codec}`,
        isBinary: codec === "proto",
        isEnveloped: protocol !== "",
        // Connect puts the messages of streams into envelopes. This test sends Connect requests without envelopes.
        methods: METHODS.filter(({ methodKind }) => protocol !== "" || methodKind === "unary"),
        pathOf: ({ parent, name }) => ["POST", `/${parent.typeName}/${name}`],
      }),
    ),
  ),
  {
    name: "REST",
    type: "application/json",
    isBinary: false,
    isEnveloped: false,
    methods: [...REST.keys()],
    pathOf: (method) => REST.get(method) ?? ["", ""],
  },
];

/** An unpaired surrogate, encoded as invalid UTF-8. */
const HALF_IN_BYTES = Buffer.from([0xed, 0xa0, 0x80]);

/** Matches errors about invalid Unicode. Their texts are from protobuf-es or from the rules of `properties`. */
const NO_UNICODE =
  /must be .*well-formed Unicode|values are strings, and must occur only once|is not a valid \S+ in protobuf's binary format/;

/** Bodies whose nesting is so deep that the error cannot name the invalid field. */
const DEEP: readonly (readonly [title: string, body: string])[] = [
  ["1,000 levels of objects", `{"user_group_id":"a","properties":${'{"a":'.repeat(1000)}1${"}".repeat(1000)}}`],
  ["400,000 levels of arrays", `{"user_group_id":"a","properties":{"a":${"[".repeat(400_000)}${"]".repeat(400_000)}}}`],
  ["900,000 unclosed brackets", `{"user_group_id":"a","properties":${"[".repeat(900_000)}`],
];

/** Bodies with deep nesting in an unknown field. The service may ignore the field, or reject the body. */
const DEEP_ELSEWHERE: typeof DEEP = [
  [
    "150,000 levels of objects in an unknown field",
    `{"user_group_id":"a","x": ${'{"a":'.repeat(150_000)}1${"}".repeat(150_000)}}`,
  ],
  [
    "400,000 levels of arrays in an unknown field",
    `{"user_group_id":"a","x":${"[".repeat(400_000)}${"]".repeat(400_000)}}`,
  ],
];

/** Invalid bodies for /api/viewer, and the fields that the error names. */
const NO_VIEWER: readonly (readonly [title: string, body: string | Buffer, fields?: readonly string[]])[] = [
  ["a form", "token=a"],
  ["truncated JSON", '{"token":"a"'],
  ["two JSON values", '{"token":"a"}{}'],
  ["an array", '["a"]'],
  ["null", "null"],
  ["bytes that are not UTF-8", Buffer.from('{"token":"a\xff"}', "latin1")],
  ["UTF-16", Buffer.from('{"token":"a"}', "utf16le")],
  ["the key `token` twice", '{"token":"a","token":"b"}'],
  ["the key `token` twice, once with an escape", '{"token":"a","to\\u006ben":"b"}'],
  ["another duplicate key", '{"token":"a","x":{"y":1,"y":2}}'],
  ["a number", '{"token":1}', ["token"]],
  ["an object", '{"token":{"toString":"a"}}', ["token"]],
  ["a list", '{"token":["a"]}', ["token"]],
  ["an unpaired surrogate", '{"token":"\\ud800"}', ["token"]],
];

const KEPT: readonly string[] = [
  '{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}},"toString":1,"hasOwnProperty":null}',
  '{"a":{"__proto__":[{"__proto__":"x"}]}}',
  '{"n":[9007199254740991,-9007199254740991,0.1,1e-7,123456.789]}',
  '{"":"","é":"\u{1f642}","\\u0000":"\\u0000\\u001f\u007f\u2028","\\"":"\\\\"}',
  '{"b":1,"a":2,"c":{"z":[],"y":{}}}',
  '{"true":true,"null":null,"false":false}',
];

describe.each(RUNTIMES)("the service on %s", (runtime) => {
  // All cases use the same process. If a case crashes the process, later cases fail.
  const server = sharedServer({ runtime });

  const headers = () => ({ authorization: `Token ${server.tokens.customer}`, "content-type": "application/json" });
  const rest = (body: string | Buffer) => http1(server.url, "/api/user", { headers: headers(), body });
  const viewer = (body: string | Buffer) =>
    http1(server.url, "/api/viewer", { method: "POST", headers: headers(), body });
  const connect = (body: string | Buffer) => http1(server.url, GET_PATH, { method: "POST", headers: headers(), body });

  it.each(REFUSED.map((refusal) => [refusal[0], refusal] as const))("rejects %s", async (_title, refusal) => {
    const [, body, reason, fields = []] = refusal;
    const expected = { status: 400, code: "invalid_argument", reason };
    expectRestError(await rest(body), { ...expected, fields });
    expectConnectError(await connect(body), "invalid_argument", reason);
  });

  it.each(NO_VIEWER.map((row) => [row[0], row] as const))("rejects %s at /api/viewer", async (_title, row) => {
    const [, body, fields = []] = row;
    expectRestError(await viewer(body), { status: 400, code: "invalid_argument", reason: "MALFORMED_REQUEST", fields });
  });

  it.each([...DEEP, ...DEEP_ELSEWHERE])(
    "does not crash on %s, and rejects deep nesting in a known field",
    async (_title, body) => {
      const isKnown = DEEP.some(([, known]) => known === body);
      for (const send of [rest, connect]) {
        const { status, body: answer } = await send(body);
        expect(isKnown ? [400] : [200, 400], answer.toString().slice(0, 300)).toContain(status);
        expect(answer.toString()).not.toMatch(/RangeError|stack|recursion/i);
        if (isKnown) expect(answer.toString()).toContain("invalid_argument");
      }
      // /api/viewer has no field `properties`. The service may ignore an unknown field, or reject the body.
      const answer = await viewer(body.replace("user_group_id", "token"));
      expect([200, 400], answer.body.toString().slice(0, 300)).toContain(answer.status);
      expect(answer.body.toString()).not.toMatch(/RangeError|stack|recursion/i);
    },
  );

  describe.each(WAYS)("over $name", ({ name: way, type, isBinary, isEnveloped, methods, pathOf }) => {
    it.each(methods)("rejects an unpaired surrogate in any string of $name", async (method) => {
      const positions = textPositions(method.input);
      expect(positions.length).toBeGreaterThan(0);
      const session = openHttp2(server.url);
      const token = method.parent === AdminService ? ADMIN_ENV.ADMIN_TOKEN : server.tokens.customer;
      const [httpMethod, path] = pathOf(method);
      const errorOf = async (bytes: Uint8Array) => {
        const headers = { ...bearer(token), "content-type": type };
        const body = isEnveloped ? envelope(bytes) : bytes;
        const answer = await http2On(session, path, { method: httpMethod, headers, body });
        const message = answer.headers["grpc-message"] ?? answer.trailers["grpc-message"] ?? answer.body;
        // decodeURIComponent throws if a binary body contains a % that is not an escape.
        return unescapeLeniently(String(message));
      };
      for (const { name, json, binary } of positions) {
        if (way === "REST" && IN_HEADERS.has(name)) continue;
        const write = (text: string, bytes: Uint8Array) =>
          isBinary ? binary(bytes) : Buffer.from(JSON.stringify(json(text)));
        expect(await errorOf(write("\ud800", HALF_IN_BYTES)), name).toMatch(NO_UNICODE);
        expect(await errorOf(write("é", Buffer.from("é"))), name).not.toMatch(NO_UNICODE);
      }
      session.destroy();
    });
  });

  it.each(KEPT)("stores the properties %s unchanged", async (text) => {
    const body = (id: string) => `{"user_group_id":${JSON.stringify(id)},"properties":${text}}`;
    const [first, second] = [newId(), newId()];
    for (const [send, id, other] of [
      [rest, first, connect],
      [connect, second, rest],
    ] as const) {
      const created = propertiesIn(await send(body(id)));
      const read = propertiesIn(await other(`{"user_group_id":${JSON.stringify(id)}}`));
      // The test compares text, because an object would hide changes of __proto__.
      expect(created).toBe(canonical(text));
      expect(read).toBe(canonical(text));
    }
  });

  it("stores a mapping with keys such as __proto__ and toString", async () => {
    const id = JSON.stringify(newId());
    const mapping = '{"__proto__":"a","constructor":"b","toString":"c"}';
    expect((await rest(`{"user_group_id":${id},"mapping":${mapping}}`)).status).toBe(200);
    const answer = (await connect(`{"userGroupId":${id}}`)).body.toString();
    for (const entry of ['"__proto__":"a"', '"constructor":"b"', '"toString":"c"']) expect(answer).toContain(entry);
  });

  it("distinguishes ids such as __proto__ and toString", async () => {
    const tokens = new Set<string>();
    for (const id of ["__proto__", "constructor", "toString", "__defineGetter__"]) {
      for (const send of [rest, connect]) {
        const answer = await send(`{"user_group_id":"${id}"}`);
        expect(answer.status).toBe(200);
        tokens.add(/ugt_\w+/.exec(answer.body.toString())?.[0] ?? "none");
      }
    }
    expect(tokens.size).toBe(4);
  });
});

function propertiesIn({ status, body }: HttpAnswer): string {
  const text = body.toString();
  expect(status, text).toBe(200);
  const start = text.indexOf('"properties":') + '"properties":'.length;
  let depth = 0;
  let inString = false;
  for (let i = start; i < text.length; i++) {
    const character = text[i];
    if (inString && character === "\\") i++;
    else if (character === '"') inString = !inString;
    else if (!inString && character === "{") depth++;
    else if (!inString && character === "}" && --depth === 0) return text.slice(start, i + 1);
  }
  throw new Error(`no properties in ${text}`);
}

/** Returns the normalized JSON text. In contrast to JSON.parse and JSON.stringify, this function keeps `__proto__`. */
function canonical(text: string): string {
  const stand = "proto-stand-in";
  return JSON.stringify(JSON.parse(text.replaceAll("__proto__", stand))).replaceAll(stand, "__proto__");
}
