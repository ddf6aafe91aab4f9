import { Code } from "@connectrpc/connect";
import fc from "fast-check";
import { PlainSchema } from "../gen/talk/v1/plain_pb.ts";
import { TalkSchema } from "../gen/talk/v1/talk_pb.ts";
import { messages } from "../messages.ts";
import { FORMS, frame, type RequestOptions, requestOf } from "./differential-requests.ts";
import { MAX_BYTES } from "./differential-servers.ts";
import { type Script, type Spoken, scriptText } from "./differential-service.ts";
import type { RawRequest } from "./differential-wire.ts";

const CONTENT_TYPES = [
  "application/grpc",
  "application/grpc+proto",
  "application/grpc+json",
  "application/grpc+json; charset=utf-8",
  "APPLICATION/GRPC",
  "application/grpc+thrift",
  "application/grpc-web",
  "application/grpc-web+json",
  "application/grpc-web-text",
  "application/json",
  "application/json;charset=UTF8",
  "application/json; charset=latin1",
  "application/proto",
  "application/connect+proto",
  "application/connect+json",
  "text/plain",
  "",
];

const FIELDS: readonly (readonly [string, string])[] = [
  ["grpc-encoding", "gzip"],
  ["grpc-encoding", "identity"],
  ["grpc-encoding", "zstd"],
  ["grpc-accept-encoding", "br,gzip"],
  ["content-encoding", "br"],
  ["content-encoding", "x"],
  ["accept-encoding", "gzip"],
  ["accept-encoding", "*;q=0"],
  ["grpc-timeout", "20S"],
  ["grpc-timeout", "500H"],
  ["grpc-timeout", "5"],
  ["connect-timeout-ms", "20000"],
  ["connect-timeout-ms", "0"],
  ["connect-timeout-ms", "x"],
  ["connect-protocol-version", "1"],
  ["connect-protocol-version", "0"],
  ["x-text-bin", "AAE"],
  ["x-twice", "1"],
  ["x-twice", "2"],
  ["x-latin", "\u00e4"],
  ["cookie", "a=b"],
  ["expect", "100-continue"],
  ["expect", "more"],
  ["te", "trailers"],
  ["user-agent", "differential"],
  ["authorization", "Token x"],
];

const field = fc.constantFrom(...FIELDS);
const metadata = fc.array(
  fc.tuple(fc.constantFrom("x-a", "x-b", "x-c-bin", "set-cookie"), fc.constantFrom("1", "a, b", "\u00e4", "AAE")),
  { maxLength: 4 },
);

const script: fc.Arbitrary<Script> = fc.record(
  {
    fail: fc.record(
      {
        code: fc.constantFrom(...Object.values(Code).filter((code) => typeof code === "number")),
        message: fc.string({ unit: "binary", maxLength: 8 }).map((text) => text.toWellFormed()),
        metadata,
        details: fc.nat(3),
      },
      { requiredKeys: ["message"] },
    ),
    failIn: fc.constantFrom("interceptor", "interceptor after"),
    headers: metadata,
    trailers: metadata,
    size: fc.constantFrom(0, 1022, 1024, 70_000),
    answer: fc.constantFrom(
      "nothing",
      "a part",
      "unserializable value",
      "out-of-range value",
      "value without JSON form",
    ),
    replace: fc.constantFrom("message", "request header", "answer"),
  },
  { requiredKeys: [] },
);

const texts = fc.string({ unit: "grapheme", maxLength: 20 });
const message: fc.Arbitrary<Spoken> = fc
  .tuple(
    fc.oneof(
      { weight: 2, arbitrary: messages(TalkSchema, { texts, maxFields: 8 }) },
      { weight: 1, arbitrary: messages(PlainSchema, { texts, maxFields: 12 }) },
    ),
    // Some texts exceed the maximum length of a message by up to 50 characters.
    fc.option(
      fc.nat(MAX_BYTES + 50).map((length) => "x".repeat(length)),
      { freq: 3 },
    ),
    fc.option(script, { nil: undefined, freq: 3 }),
  )
  .map(([spoken, long, given]) =>
    Object.assign(spoken, long !== null && { text: long }, { script: scriptText(given) }),
  );

const options: fc.Arbitrary<RequestOptions> = fc.record(
  {
    headers: fc.array(field, { maxLength: 3 }),
    compression: fc.constantFrom("gzip", "br", "identity"),
    method: fc.oneof({ weight: 9, arbitrary: fc.constant("POST") }, fc.constantFrom("GET", "HEAD", "PUT", "OPTIONS")),
    rpc: fc.oneof(
      { weight: 5, arbitrary: fc.constantFrom(undefined, "Say") },
      fc.constantFrom("Watch", "Absent", "Missing"),
    ),
    withLength: fc.boolean(),
    cuts: fc.array(fc.nat(60), { maxLength: 4 }),
    query: fc.constantFrom("?a=b", "?encoding=json&message={}", "?compression=gzip", "?%"),
  },
  { requiredKeys: [] },
);

type Mutation = (request: RawRequest) => RawRequest;

function ofBody(change: (body: Buffer) => Uint8Array): Mutation {
  return (request) => ({ ...request, body: change(Buffer.from(request.body)) });
}

const place = fc.double({ min: 0, max: 1, noNaN: true });
const at = (body: Uint8Array, where: number) => Math.min(Math.floor(where * body.byteLength), body.byteLength);

const mutation: fc.Arbitrary<Mutation> = fc.oneof(
  fc.tuple(place, fc.nat(7)).map(([where, bit]) =>
    ofBody((body) => {
      const i = Math.min(at(body, where), body.byteLength - 1);
      if (i >= 0) body[i] = (body[i] as number) ^ (1 << bit);
      return body;
    }),
  ),
  place.map((where) => ofBody((body) => body.subarray(0, at(body, where)))),
  fc
    .tuple(place, fc.uint8Array({ maxLength: 12 }))
    .map(([where, bytes]) =>
      ofBody((body) => Buffer.concat([body.subarray(0, at(body, where)), bytes, body.subarray(at(body, where))])),
    ),
  fc.constant(ofBody((body) => Buffer.concat([body, body]))),
  fc.uint8Array({ maxLength: 40 }).map((bytes) => ofBody(() => bytes)),
  fc
    .tuple(fc.constantFrom(0, 1, 2, 0x80, 0x81, 255), fc.uint8Array({ maxLength: 20 }), fc.integer({ min: -2, max: 2 }))
    .map(([flags, bytes, lie]) =>
      ofBody((body) => Buffer.concat([body, frame(flags, bytes, Math.max(0, bytes.byteLength + lie))])),
    ),
  fc.constantFrom(0, 1, 4, MAX_BYTES, MAX_BYTES + 1, 2 ** 31, 2 ** 32 - 1).map((length) =>
    ofBody((body) => {
      if (body.byteLength >= 5) body.writeUInt32BE(length, 1);
      return body;
    }),
  ),
  fc.constantFrom(...CONTENT_TYPES).map((type) => (request: RawRequest) => ({
    ...request,
    headers: [["content-type", type] as const, ...request.headers.filter(([name]) => name !== "content-type")],
  })),
  fc.constant((request: RawRequest) => ({
    ...request,
    headers: request.headers.filter(([name]) => name !== "content-type"),
  })),
  field.map((one) => (request: RawRequest) => ({ ...request, headers: [...request.headers, one] })),
  fc.tuple(place, fc.constantFrom("%", "&", "=", "a", "/", "+", "?")).map(([where, char]) => (request: RawRequest) => {
    const query = request.target.indexOf("?") + 1 || request.target.length;
    const i = query + Math.floor(where * (request.target.length - query));
    return { ...request, target: request.target.slice(0, i) + char + request.target.slice(i + 1) };
  }),
);

/** Generates requests of every form. Most requests have an error. */
export const requests: fc.Arbitrary<RawRequest> = fc
  .tuple(
    fc.constantFrom(...FORMS),
    message,
    fc.oneof(fc.constant<RequestOptions>({}), options),
    fc.oneof(fc.constant([]), fc.array(mutation, { maxLength: 3 })),
  )
  .map(([form, content, given, mutations]) => {
    const { compression, ...rest } = given;
    const request = requestOf(form, content, compression === undefined ? rest : { ...rest, compression });
    return acceptable(mutations.reduce((so, mutate) => mutate(so), request));
  });

/** Removes fields that node:http2's client refuses to send. */
function acceptable(request: RawRequest): RawRequest {
  if (request.http === 1) return request;
  const single = new Set(["content-type", "content-encoding", "expect", "te", "user-agent", "authorization"]);
  const seen = new Set<string>();
  const headers = request.headers.filter(([name]) => !(seen.has(name) && single.has(name)) && seen.add(name));
  return { ...request, headers };
}
