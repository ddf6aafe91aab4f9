import { Code } from "@connectrpc/connect";
import { FORMS, type Form, frame, requestOf, requestWith } from "./differential-requests.ts";
import { MAX_BYTES, type Outcome } from "./differential-servers.ts";
import { talk } from "./differential-service.ts";
import type { RawRequest } from "./differential-wire.ts";

/** What of an outcome a known difference speaks of. */
export interface Excerpt {
  readonly status?: number;
  readonly end?: Outcome["end"];
  readonly informational?: Outcome["informational"];
  readonly code?: Code | 0;
  /** The answer's fields that begin with `x-`. */
  readonly headers?: string | undefined;
  /** How often the implementation ran. */
  readonly calls?: number;
}

/** A request that the unary transport answers otherwise than Connect's adapter, on purpose. */
export interface KnownDifference {
  readonly name: string;
  readonly reason: string;
  /** Requests that show it. */
  readonly requests: readonly RawRequest[];
  /** Whether the difference is to be expected of a request. */
  readonly covers: (request: RawRequest, outcome: { readonly ours: Outcome; readonly connect: Outcome }) => boolean;
  readonly ours: Excerpt;
  readonly connect: Excerpt;
}

const MESSAGE = talk({ text: "hi" });
const HEADER_BYTES = 5;

/** Every difference in what comes over the wire. */
export const KNOWN_DIFFERENCES: readonly KnownDifference[] = [
  {
    name: "gRPC-Web text is served",
    reason: "Connect has no gRPC-Web text, which browsers' older clients speak; it answers 415.",
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
    name: "a method without side effects takes POST alone",
    reason: "Connect serves it by GET, too: its message then stands in the URL, which proxies log and caches keep.",
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
    name: "an envelope without its data is incomplete",
    reason:
      "Connect's decoder forgets the header of an envelope whose data never came: half a body passes for a whole one.",
    requests: grpcForms().map((form) => {
      const request = requestOf(form, MESSAGE);
      return { ...request, body: Buffer.concat([request.body, frame(0, new Uint8Array(0), 1)]) };
    }),
    covers: (request) => isEnveloped(request) && endsInHeader(request.body),
    ours: { code: Code.InvalidArgument, calls: 0 },
    connect: { code: 0, calls: 1 },
  },
  {
    name: "a body longer than one message can be is not read",
    reason:
      "Connect reads on, however many envelopes follow the first; ours stops reading, so it knows not what followed.",
    requests: grpcForms("grpc-web").map((form) => {
      const trailers = Array.from({ length: 50 }, () => frame(0x80, new Uint8Array(100)));
      return { ...requestOf(form, MESSAGE), body: Buffer.concat([requestOf(form, MESSAGE).body, ...trailers]) };
    }),
    covers: (request) => isEnveloped(request) && request.body.byteLength > MAX_BYTES + 2 * HEADER_BYTES,
    ours: { code: Code.ResourceExhausted, calls: 0 },
    connect: { code: 0, calls: 1 },
  },
  {
    name: "envelopes are looked at one by one",
    reason:
      "Connect splits each piece of a body before it parses a message, so which fault it tells of hangs on the cuts.",
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
    name: "a field with an empty value at its end is not lost",
    reason: "Connect's gRPC sends the space after the last comma, and HTTP/2 drops a field that ends in one.",
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
    name: "an error's text may hold half a character",
    reason:
      "Connect fails to encode it, as it may be where JSON that is refused is quoted, and leaves the caller waiting.",
    requests: grpcForms("grpc").map((form) =>
      requestOf(form, talk({ script: { fail: { code: Code.NotFound, message: "half \ud83d" } } })),
    ),
    covers: (request, { ours, connect }) =>
      isEnveloped(request) && connect.end === "nothing came" && codeOf(ours) === Code.InvalidArgument,
    ours: { end: "complete", code: Code.NotFound, calls: 1 },
    connect: { end: "nothing came", calls: 1 },
  },
  lenientJson("the JSON of a duration ends where it ends", {
    reason: "Connect takes what begins with a duration for one, such as 1s of grace.",
    json: '{"duration":"1s of grace"}',
    refusal: /Duration(%20| )from(%20| )JSON/,
  }),
  lenientJson("the JSON of a time is of a day that there is", {
    reason: "Connect takes the 30th of February for one of March.",
    json: '{"time":"2026-02-30T00:00:00Z"}',
    refusal: /Timestamp(%20| )from(%20| )JSON/,
  }),
  lenientJson("the JSON of an enum names a value that there is", {
    reason: "Connect leaves the field out, so that the call means the default value.",
    json: '{"mood":"MOOD_OTHER"}',
    refusal: /Mood(%20| )from(%20| )JSON/,
  }),
  {
    name: "a request that is refused need not send its body",
    reason: "Connect asks for the body, and refuses the request then.",
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
    name: "an answer that cannot be written is a reset",
    reason: "Connect's adapter writes to the console and leaves the caller waiting.",
    requests: FORMS.map((form) => requestOf(form, talk({ script: { headers: [["x-control", "a\u0001b"]] } }))).filter(
      ({ http }) => http === 1,
    ),
    covers: () => false,
    ours: { end: "reset", calls: 1 },
    connect: { end: "nothing came", calls: 1 },
  },
];

/** JSON that Connect takes for something else. */
function lenientJson(
  name: string,
  { reason, json, refusal }: { reason: string; json: string; refusal: RegExp },
): KnownDifference {
  return {
    ...{ name, reason },
    requests: FORMS.filter(({ binary }) => !binary).map((form) => requestWith(form, Buffer.from(json))),
    covers: (_request, { ours, connect }) =>
      [...ours.trailers, ours.body.toString()].some((text) => refusal.test(text)) && connect.effects.length > 0,
    ours: { calls: 0 },
    connect: { status: 200, calls: 1 },
  };
}

/** The code that an answer tells, 0 for success; undefined where it tells none. */
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

/** Whether a body ends right after the header of an envelope that says that there is more. */
function endsInHeader(body: Uint8Array): boolean {
  const lengths = lengthsOf(body);
  const last = lengths.pop() ?? 0;
  return last > 0 && lengths.reduce((sum, length) => sum + HEADER_BYTES + length, HEADER_BYTES) === body.byteLength;
}

/** The lengths that the headers of a body's envelopes tell. */
function lengthsOf(body: Uint8Array): number[] {
  const view = new DataView(body.buffer, body.byteOffset, body.byteLength);
  const lengths: number[] = [];
  for (let at = 0; at + HEADER_BYTES <= body.byteLength; at += HEADER_BYTES + (lengths.at(-1) ?? 0)) {
    lengths.push(view.getUint32(at + 1));
  }
  return lengths;
}
