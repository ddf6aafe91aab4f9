import { gzipSync } from "node:zlib";
import { toBinary } from "@bufbuild/protobuf";
import { afterAll, describe, expect, it } from "vitest";
import { TalkSchema } from "./gen/talk/v1/talk_pb.ts";
import { exchangeAlike } from "./support/differential-compare.ts";
import { FORMS, type Form, frame, requestOf, requestWith } from "./support/differential-requests.ts";
import { MAX_BYTES, openPair } from "./support/differential-servers.ts";
import { talk } from "./support/differential-service.ts";
import type { FieldList, RawRequest } from "./support/differential-wire.ts";

const pair = await openPair();
afterAll(() => pair.close());

const same = (request: RawRequest) => exchangeAlike(pair, request);

const MESSAGE = talk({ text: "hi", number: 5n });
const GZIP: FieldList = [["grpc-encoding", "gzip"]];

describe.each(FORMS)("the port, called by $name,", (form) => {
  const request = requestOf(form, MESSAGE);
  const others = request.headers.filter(([name]) => name !== "content-type");

  it("handles content types like Connect's adapter", async () => {
    const types =
      "application/grpc application/GRPC application/grpc+PROTO application/grpc+thrift application/grpc-web \
application/json application/JSON application/proto application/x-protobuf application/connect+proto text/plain */*";
    const ends = ["; charset=utf-8", ";charset=utf8", "; charset=UTF-8", ";charset=utf-16", "; a=b", ";", ", x"];
    const json = ["application/json", "application/grpc+json", "application/grpc-web+json", "application/grpc+proto"];
    const all = [...types.split(" "), ...json.flatMap((type) => ends.map((end) => type + end)), ""];
    for (const type of all) await same({ ...request, headers: [["content-type", type], ...others] });
    await same({ ...request, headers: others });
    if (form.http === 1) await same({ ...request, headers: [...request.headers, ["Content-Type", "text/plain"]] });
  });

  it("handles HTTP methods, paths and queries like Connect's adapter", async () => {
    for (const method of ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"]) {
      for (const rpc of ["Say", "Look", "Watch", "Absent", "Missing"]) {
        await same(requestOf(form, MESSAGE, { method, rpc }));
      }
    }
    for (const query of ["?", "?a=b", "?encoding=json", "?message=x&encoding=proto&base64=1", "?%zz", "?a=%ff"]) {
      await same(requestOf(form, MESSAGE, { query }));
    }
    const path = "/talk.v1.TalkService/Look";
    for (const target of [`/${path}`, `${path}/`, path.replace("L", "%4c"), `/x/..${path}`, `http://h${path}`, "*"]) {
      await same({ ...request, target });
    }
  });

  it("handles unusual header fields like Connect's adapter", async () => {
    const fields: FieldList = [
      ["expect", "100-continue"],
      ["expect", "100-Continue"],
      ["expect", "more"],
      ["x-bin", "!!!"],
      ["x-long", "a".repeat(10_000)],
      ["__proto__", "a"],
      ["x-!#$%&'*+.^_`|~", "1"],
      ["te", "trailers"],
      ["connect-protocol-version", "2"],
    ];
    for (const field of fields) await same({ ...request, headers: [...request.headers, field] });
    const hostField = form.http === 1 ? "host" : ":authority";
    for (const host of ["a b", "", "[::1", "x:99999", "user@host", "ho/st", "h?q"]) {
      await same({ ...request, headers: [...request.headers, [hostField, host]] });
    }
    await same({
      ...request,
      withLength: false,
      trailers: [
        ["x-trailer", "1"],
        ["grpc-status", "3"],
      ],
    });
    if (form.http === 2) {
      for (const length of ["3", "99999"]) {
        const { end, effects } = await same({ ...request, headers: [...request.headers, ["content-length", length]] });
        expect([end, effects]).toEqual(["reset", []]);
      }
    }
  });

  it("handles oversized bodies like Connect's adapter", async () => {
    for (const over of [0, 1, 10, 11, 60_000, 1_000_000]) {
      const bytes = toBinary(TalkSchema, talk({ text: "a".repeat(MAX_BYTES - 3 + over) }));
      for (const withLength of [true, false]) {
        for (const cuts of [[], [5, 4000]]) {
          await same(requestWith(form, bytes, { withLength, cuts }));
          await same(requestWith(form, bytes, { withLength, cuts, compression: "gzip" }));
        }
      }
    }
    expect((await same(request)).status).toBe(200);
  });

  it("handles truncated bodies like Connect's adapter", async () => {
    for (let end = 0; end < request.body.byteLength; end++) {
      await same({ ...request, body: request.body.subarray(0, end) });
      await same({ ...request, body: request.body.subarray(0, end), withLength: false });
    }
  });
});

describe.each(FORMS.filter(({ protocol }) => protocol.startsWith("grpc")))("envelopes of $name", (form) => {
  it.each(Object.entries(bodiesOf(form)))(
    "the port handles envelopes like Connect's adapter: %s",
    async (_name, body) => {
      const request = requestOf(form, MESSAGE);
      for (const encoding of [[], GZIP, [["grpc-encoding", "identity"]]] as FieldList[]) {
        for (const cuts of [[], [3], [7, 9]]) {
          await same({ ...request, headers: [...request.headers, ...encoding], body, cuts });
          await same({ ...request, headers: [...request.headers, ...encoding], body, cuts, withLength: false });
        }
      }
    },
  );
});

function bodiesOf(form: Form): { [name: string]: Uint8Array } {
  const message = form.binary ? toBinary(TalkSchema, MESSAGE) : Buffer.from('{"text":"hi"}');
  const good = frame(0, message);
  const bad = frame(0, Buffer.from([255]));
  const empty = frame(0, new Uint8Array(0));
  const trailer = frame(0x80, Buffer.from("a: b\r\n"));
  const flags = [1, 2, 0x7e, 0x7f, 0x80, 0x81, 255].map((flag) => [`flags ${flag}`, frame(flag, message)]);
  const lengths = [-1, 1, MAX_BYTES - message.byteLength, MAX_BYTES + 1, 2 ** 32 - 1 - message.byteLength].map(
    (lie) => [`a length that is wrong by ${lie}`, frame(0, message, message.byteLength + lie)],
  );
  return {
    ...Object.fromEntries([...flags, ...lengths]),
    "no envelope": new Uint8Array(0),
    "an empty message": empty,
    "two empty messages": Buffer.concat([empty, empty]),
    "two messages": Buffer.concat([good, good]),
    "three messages": Buffer.concat([good, good, good]),
    "very many messages": Buffer.concat(Array.from({ length: 5000 }, () => good)),
    "an invalid second message": Buffer.concat([good, bad]),
    "an invalid first message": Buffer.concat([bad, good]),
    "a long second message": Buffer.concat([good, frame(0, Buffer.alloc(4000))]),
    "one byte after the message": Buffer.concat([good, new Uint8Array(1)]),
    "a header without data after the message": Buffer.concat([good, frame(0, new Uint8Array(0), 1)]),
    "a second message that is too long": Buffer.concat([good, frame(0, new Uint8Array(1), 2 ** 31)]),
    "a message compressed with gzip, as declared": frame(1, gzipSync(message)),
    "a trailer after the message": Buffer.concat([good, trailer]),
    "a trailer before the message": Buffer.concat([trailer, good]),
    "a compressed trailer": Buffer.concat([good, frame(0x81, gzipSync("a: b"))]),
    "very many trailers": Buffer.concat(Array.from({ length: 5000 }, () => trailer)),
  };
}
