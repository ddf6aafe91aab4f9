import { Code } from "@connectrpc/connect";
import { FORMS, type Form, frame, requestOf, requestWith } from "./differential-requests.ts";
import { MAX_BYTES, type Outcome } from "./differential-servers.ts";
import { talk } from "./differential-service.ts";
import type { RawRequest } from "./differential-wire.ts";

export interface Excerpt {
  readonly status?: number;
  readonly end?: Outcome["end"];
  readonly informational?: Outcome["informational"];
  readonly code?: Code | 0;
  /** The fields of the answer whose names begin with `x-`. */
  readonly headers?: string | undefined;
  readonly calls?: number;
}

/** An intended difference between the transport and Connect's adapter. */
export interface KnownDifference {
  readonly name: string;
  readonly reason: string;
  readonly requests: readonly RawRequest[];
  readonly covers: (request: RawRequest, outcome: { readonly ours: Outcome; readonly connect: Outcome }) => boolean;
  readonly ours: Excerpt;
  readonly connect: Excerpt;
}

const MESSAGE = talk({ text: "hi" });
const HEADER_BYTES = 5;

export const KNOWN_DIFFERENCES: readonly KnownDifference[] = [
  {
    name: "serves gRPC-Web text",
    reason: "Connect answers 415 to gRPC-Web text, which older browser clients send.",
    requests: grpcForms("grpc-web").map((form) => {
      const request = requestOf(form, MESSAGE);
      const headers = [["content-type", "application/grpc-web-text"]] as const;
      return { ...request, headers, body: Buffer.from(Buffer.from(request.body).toString("base64")) };
    }),
    covers: ({ method, headers }) => method === "POST" && /^application\/grpc-web-text(\+|$)/i.test(typeOf(headers)),
    ours: { status: 200 },
    connect: { status: 415, calls: 0 },
  },
  {
    name: "accepts only POST for a method without side effects",
    reason:
      "Connect also serves such a method by GET. The message is then in the URL, which proxies log and caches keep.",
    requests: FORMS.filter(({ protocol }) => protocol === "connect").map((form) => {
      const encoding = form.binary ? "proto" : "json";
      const message = Buffer.from(requestOf(form, MESSAGE).body).toString("base64url");
      const query = `?connect=v1&encoding=${encoding}&base64=1&message=${message}`;
      return { ...requestOf(form, MESSAGE, { method: "GET", query }), headers: [], body: new Uint8Array(0) };
    }),
    covers: ({ method, target }) => method === "GET" && /\/(?:Look|Tell)(?:\?|$)/.test(target),
    ours: { status: 405, calls: 0 },
    connect: { status: 200, calls: 1 },
  },
  {
    name: "refuses an envelope without its data",
    reason: "If the data of an envelope is missing, Connect's decoder ignores the header and accepts half a body.",
    requests: grpcForms().map((form) => {
      const request = requestOf(form, MESSAGE);
      return { ...request, body: Buffer.concat([request.body, frame(0, new Uint8Array(0), 1)]) };
    }),
    covers: (request) => isEnveloped(request) && endsInHeader(request.body),
    ours: { code: Code.InvalidArgument, calls: 0 },
    connect: { code: 0, calls: 1 },
  },
  {
    name: "stops reading a body that is longer than the largest message",
    reason:
      "Connect reads every envelope after the first. The transport stops reading after the maximum size of one message.",
    requests: grpcForms("grpc-web").map((form) => {
      const trailers = Array.from({ length: 50 }, () => frame(0x80, new Uint8Array(100)));
      return { ...requestOf(form, MESSAGE), body: Buffer.concat([requestOf(form, MESSAGE).body, ...trailers]) };
    }),
    covers: (request) => isEnveloped(request) && request.body.byteLength > MAX_BYTES + 2 * HEADER_BYTES,
    ours: { code: Code.ResourceExhausted, calls: 0 },
    connect: { code: 0, calls: 1 },
  },
  {
    name: "checks envelopes one by one",
    reason:
      "Connect splits each received piece into envelopes before it parses a message, so the error depends on the pieces.",
    requests: grpcForms().map((form) => {
      const request = requestOf(form, MESSAGE);
      const tooLong = frame(0, new Uint8Array(1), MAX_BYTES + 1);
      return { ...request, body: Buffer.concat([request.body, request.body, tooLong]) };
    }),
    covers: (request) =>
      isEnveloped(request) &&
      lengthsOf(request.body)
        .slice(1)
        .some((length) => length > MAX_BYTES),
    ours: { code: Code.Unimplemented, calls: 0 },
    connect: { code: Code.ResourceExhausted, calls: 0 },
  },
  {
    name: "keeps a header field whose last value is empty",
    reason: "Connect joins the values to `1, ` with a trailing space. HTTP/2 drops a field with a trailing space.",
    requests: grpcForms()
      .filter(({ http }) => http === 2)
      .map((form) =>
        requestOf(
          form,
          talk({
            script: {
              headers: [
                ["x-a", "1"],
                ["x-a", ""],
              ],
            },
          }),
        ),
      ),
    covers: () => false,
    ours: { headers: "x-a: 1," },
    connect: { headers: undefined },
  },
  {
    name: "encodes an error message with an unpaired surrogate",
    reason:
      "Connect fails to encode the message and never answers. Errors that quote refused JSON can have such messages.",
    requests: grpcForms("grpc").map((form) =>
      requestOf(form, talk({ script: { fail: { code: Code.NotFound, message: "half \ud83d" } } })),
    ),
    covers: (request, { ours, connect }) =>
      isEnveloped(request) && connect.end === "nothing came" && codeOf(ours) === Code.InvalidArgument,
    ours: { end: "complete", code: Code.NotFound, calls: 1 },
    connect: { end: "nothing came", calls: 1 },
  },
  lenientJson("refuses text after a JSON duration", {
    reason: "Connect accepts any text that begins with a duration, such as `1s of grace`.",
    json: '{"duration":"1s of grace"}',
    refusal: /Duration(%20| )from(%20| )JSON/,
  }),
  lenientJson("refuses a JSON timestamp on a day that does not exist", {
    reason: "Connect reads February 30 as a day in March.",
    json: '{"time":"2026-02-30T00:00:00Z"}',
    refusal: /Timestamp(%20| )from(%20| )JSON/,
  }),
  lenientJson("refuses an unknown enum name in JSON", {
    reason: "Connect ignores the field, so the call uses the default value.",
    json: '{"mood":"MOOD_OTHER"}',
    refusal: /Mood(%20| )from(%20| )JSON/,
  }),
  {
    name: "refuses a request before its body arrives",
    reason: "Connect waits for the body and then refuses the request.",
    requests: FORMS.filter(({ http, protocol }) => http === 2 && protocol === "connect").map((form) =>
      requestOf(form, MESSAGE, { method: "PUT", headers: [["expect", "100-continue"]] }),
    ),
    covers: (_request, { ours, connect }) =>
      (ours.status === 405 || ours.status === 415) &&
      ours.status === connect.status &&
      ours.informational.length < connect.informational.length,
    ours: { status: 405, informational: [], calls: 0 },
    connect: { status: 405, informational: [100], calls: 0 },
  },
  {
    name: "closes the HTTP/1.1 connection if an answer cannot be written",
    reason: "Connect's adapter writes to the console and never answers.",
    requests: FORMS.map((form) => requestOf(form, talk({ script: { headers: [["x-control", "a\u0001b"]] } }))).filter(
      ({ http }) => http === 1,
    ),
    covers: () => false,
    ours: { end: "reset", calls: 1 },
    connect: { end: "nothing came", calls: 1 },
  },
];

/** Creates the known difference for invalid JSON that Connect accepts. */
function lenientJson(
  name: string,
  { reason, json, refusal }: { reason: string; json: string; refusal: RegExp },
): KnownDifference {
  return {
    name,
    reason,
    requests: FORMS.filter(({ binary }) => !binary).map((form) => requestWith(form, Buffer.from(json))),
    covers: (_request, { ours, connect }) =>
      [...ours.trailers, ours.body.toString()].some((text) => refusal.test(text)) && connect.effects.length > 0,
    ours: { calls: 0 },
    connect: { status: 200, calls: 1 },
  };
}

/** Returns the status code of an answer: 0 if the call succeeded; undefined if the answer has no status code. */
export function codeOf({ trailers, body }: Outcome): number | undefined {
  const text = [...trailers, body.toString("latin1")].join("\n");
  const status = /grpc-status: (\d+)/.exec(text)?.[1];
  return status === undefined ? undefined : Number(status);
}

function grpcForms(only?: Form["protocol"]): Form[] {
  return FORMS.filter(({ protocol }) => (only === undefined ? protocol.startsWith("grpc") : protocol === only));
}

function typeOf(headers: RawRequest["headers"]): string {
  return headers.find(([name]) => name.toLowerCase() === "content-type")?.[1].trim() ?? "";
}

function isEnveloped({ method, headers }: RawRequest): boolean {
  return method === "POST" && typeOf(headers).toLowerCase().startsWith("application/grpc");
}

/** Returns whether a body ends directly after the header of an envelope, although this header announces data. */
function endsInHeader(body: Uint8Array): boolean {
  const lengths = lengthsOf(body);
  const last = lengths.pop() ?? 0;
  return last > 0 && lengths.reduce((sum, length) => sum + HEADER_BYTES + length, HEADER_BYTES) === body.byteLength;
}

function lengthsOf(body: Uint8Array): number[] {
  const view = new DataView(body.buffer, body.byteOffset, body.byteLength);
  const lengths: number[] = [];
  for (let at = 0; at + HEADER_BYTES <= body.byteLength; at += HEADER_BYTES + (lengths.at(-1) ?? 0)) {
    lengths.push(view.getUint32(at + 1));
  }
  return lengths;
}
