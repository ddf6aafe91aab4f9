import { type DescField, isFieldSet } from "@bufbuild/protobuf";
import { anyPack } from "@bufbuild/protobuf/wkt";
import { Code } from "@connectrpc/connect";
import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import { PlainSchema } from "./gen/talk/v1/plain_pb.ts";
import { type Talk, TalkSchema } from "./gen/talk/v1/talk_pb.ts";
import { fieldValues, messages, setField } from "./messages.ts";
import { exchangeAlike } from "./support/differential-compare.ts";
import { FORMS, type Form, type RequestOptions, requestOf, requestWith } from "./support/differential-requests.ts";
import { MAX_BYTES, openPair } from "./support/differential-servers.ts";
import { plain, type Script, type Spoken, talk } from "./support/differential-service.ts";
import type { FieldList, RawRequest } from "./support/differential-wire.ts";

const pair = await openPair();
afterAll(() => pair.close());

const same = (request: RawRequest) => exchangeAlike(pair, request);

const MESSAGE = talk({
  text: "grüße 👋",
  data: new Uint8Array([0, 255]),
  number: 9007199254740993n,
  list: ["", "b"],
  fields: { a: "1", constructor: "2" },
  nested: talk({ text: "inner" }),
});

const EVERY_FIELD = spread(
  TalkSchema.fields.filter(({ name }) => name !== "script"),
  16,
);
const PLAIN_MESSAGES = fc.sample(messages(PlainSchema, { depth: 3, maxFields: 30 }), { seed: 5, numRuns: 12 });

/**
 * Distributes fields over `count` messages. Sets each field to a value other than its default, if the field can have
 * such a value.
 */
function spread(fields: readonly DescField[], count: number): Talk[] {
  const all = Array.from({ length: count }, () => talk({}));
  fields.forEach((field, i) => {
    const message = all[i % count] as Talk;
    for (const value of fc.sample(fieldValues(field), { seed: i, numRuns: 20 })) {
      setField(message, field, value);
      if (isFieldSet(message, field)) break;
    }
  });
  return all;
}

it("the messages of these tests set every kind of field", () => {
  const unset = TalkSchema.fields.filter((field) => !EVERY_FIELD.some((message) => isFieldSet(message, field)));
  // An enum with only one value always has its default value.
  expect(unset.map(({ name }) => name).sort()).toEqual(["null_value", "script"]);
});

describe.each(FORMS)("the port, called by $name,", (form) => {
  const run = (script: Script, options?: RequestOptions) => same(requestOf(form, talk({ script }), options));
  const send = (options: RequestOptions, message: Spoken = MESSAGE) => same(requestOf(form, message, options));

  it("answers like Connect's adapter", async () => {
    const { status, effects } = await send({});
    expect(status).toBe(200);
    expect(effects.map(({ where }) => where)).toEqual(["interceptor", "implementation", "after"]);
    await send({ withLength: false });
    await send({ cuts: [1, 4, 5, 6, 9] });
    await send({ cuts: [3, 5], withLength: false });
    await send({}, talk({}));
    await same(requestWith(form, new Uint8Array(0)));
  });

  it("answers messages with every kind of field", async () => {
    for (const message of EVERY_FIELD) {
      const { status, effects } = await send({}, message);
      expect([status, effects.length]).toEqual([200, 3]);
    }
    for (const message of PLAIN_MESSAGES)
      expect((await send({}, Object.assign(message, { script: "" }))).status).toBe(200);
    // JSON for an Any requires a registry, which neither server has.
    const { effects } = await send({}, talk({ any: anyPack(PlainSchema, plain({ text: "packed" })) }));
    expect(effects.length).toBe(form.binary ? 3 : 0);
  });

  it("fails like Connect's adapter if an answer cannot be encoded", async () => {
    for (const answer of ["unserializable value", "out-of-range value", "value without JSON form"] as const) {
      await run({ answer });
      await send({}, plain({ script: { answer } }));
    }
  });

  it("returns each error code like Connect's adapter", async () => {
    for (const code of Object.values(Code).filter((code) => typeof code === "number")) {
      for (const failIn of [undefined, "interceptor", "interceptor after"] as const) {
        await run({ fail: { code, message: `text of ${code}: ü%\n`, details: code % 4 }, failIn });
      }
    }
    await run({ fail: { code: 99, message: "no such code" } });
    await run({ fail: { message: "a plain error" } });
    await run({ fail: { message: "a plain error" }, failIn: "interceptor" });
    await run({ fail: { code: Code.Internal, message: "" } });
    await run({ answer: "unserializable value" });
  });

  it("passes on header fields and trailers like Connect's adapter", async () => {
    const fields: FieldList = [
      ["x-one", "1"],
      ["x-two", "a"],
      ["x-two", "b, c"],
      ["X-Case", "Kept Value"],
      ["x-bin", "AAEC/w"],
      ["x-empty", ""],
      ["x-latin", "\u00e9\u00ff"],
      ["x-tab", "a\tb"],
      ["set-cookie", "a=1; Path=/"],
    ];
    // If the last value of a repeated field is empty, the servers differ (`known-differences.ts`). The error metadata
    // therefore has no empty value.
    const metadata = fields.filter(([, value]) => value !== "");
    await run({ headers: fields, trailers: fields });
    await run({ headers: [...fields, ["set-cookie", "b=2"]] });
    await run({ headers: fields, trailers: fields, fail: { code: Code.Aborted, message: "m", metadata } });
    await run({
      headers: [
        ["x-one", "0"],
        ["trailer-x-two", "0"],
      ],
      trailers: fields,
    });
    const protocolFields: FieldList = [
      ["grpc-message", "own"],
      ["content-type", "text/own"],
      ["grpc-status", "7"],
    ];
    await run({ headers: [["content-type", "text/own"]] });
    await run({ trailers: protocolFields });
    await run({ fail: { code: Code.Aborted, message: "m", details: 1, metadata: protocolFields } });
    await send({
      headers: [...fields, ["cookie", "a=1"], ["cookie", "b=2"], ["x-constructor", "1"], ["constructor", "2"]],
    });
    for (const replace of ["message", "request header", "answer", "answer header"] as const) await run({ replace });
  });

  it("accepts messages up to the size limit", async () => {
    const overhead = requestOf(form, talk({ text: "a".repeat(200) })).body.byteLength - 200;
    const room = MAX_BYTES - overhead + (form.protocol.startsWith("grpc") ? 5 : 0);
    const { status, effects } = await send({}, talk({ text: "a".repeat(room) }));
    expect([status, effects.length]).toEqual([200, 3]);
    await run({ size: 1022 });
    await run({ size: 1024 });
    await run({ size: 300_000 });
    await run({ size: 300_000 }, { headers: accept(form, "gzip") });
  });

  it("handles compression like Connect's adapter", async () => {
    for (const compression of ["gzip", "br", "identity"] as const) {
      await send({ compression });
      await send({ compression, cuts: [2, 7, 11] });
      await send({ compression }, talk({ text: "a".repeat(4000) }));
      await send({ compression }, talk({ text: "a".repeat(MAX_BYTES + 1) }));
      const broken = { ...form };
      await same(requestWith(broken, Buffer.from("neither"), { compression }));
      await same(requestWith(broken, new Uint8Array(0), { compression }));
    }
    for (const accepted of ["gzip", "br", "gzip, br", "zstd,br", "identity", "", "GZIP", "gzip;q=0.1", "*"]) {
      await run({ size: 2000 }, { headers: accept(form, accepted) });
      await run({ size: 2000 }, { headers: accept(form, accepted), compression: "gzip" });
      await run({ fail: { code: 3, message: "long ".repeat(400), details: 9 } }, { headers: accept(form, accepted) });
    }
    for (const unknown of ["zstd", "GZIP", "gzip, br", ""]) {
      const name = form.protocol.startsWith("grpc") ? "grpc-encoding" : "content-encoding";
      await send({ headers: [[name, unknown]], query: `?compression=${unknown}` });
    }
  });

  it("handles deadlines like Connect's adapter", async () => {
    const name = form.protocol.startsWith("grpc") ? "grpc-timeout" : "connect-timeout-ms";
    // No valid deadline exceeds 596 hours, because the timer of Connect's adapter cannot wait longer.
    const grpcTimes = "1H 60M 1000S 500H 10S 10000m 9000000u 0S 1n 1s -1S 123456789S 1.5S S".split(" ");
    const times = "1000 3600000 3600001 0 2000000000 10000000000 -1 1.5 1e3 abc".split(" ");
    for (const time of [...grpcTimes, "1 S", ...times, "", "5000, 6000"]) await send({ headers: [[name, time]] });
    await send({
      headers: [
        [name, "5000"],
        [name, "6000"],
      ],
    });
  });
});

function accept(form: Form, value: string): FieldList {
  return [[form.protocol.startsWith("grpc") ? "grpc-accept-encoding" : "accept-encoding", value]];
}
