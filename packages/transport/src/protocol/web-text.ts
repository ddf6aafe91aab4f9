import { Code, ConnectError } from "@connectrpc/connect";
import type { UniversalHandler, UniversalServerRequest } from "@connectrpc/connect/protocol";
import { contentTypeOf, formatOf } from "./content-types.ts";

/*
 * gRPC-Web text: gRPC-Web with base64 bodies, which may be several padded pieces in a row
 * (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-WEB.md). Connect does not support it.
 */

const PADDING = 64;
const SPACE = 65;
const INVALID = 66;

/** The meaning of each byte: six bits, or one of the constants above. */
const VALUES = new Uint8Array(256).fill(INVALID);
for (const [i, letter] of [..."ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"].entries()) {
  VALUES[letter.charCodeAt(0)] = i;
}
VALUES["-".charCodeAt(0)] = 62;
VALUES["_".charCodeAt(0)] = 63;
VALUES["=".charCodeAt(0)] = PADDING;
for (const space of "\t\n\r ") VALUES[space.charCodeAt(0)] = SPACE;

/** Decodes base64 that may be split anywhere. The work is linear in the length, however many pieces there are. */
export class WebTextDecoder {
  #bits = 0;
  /** How many characters of the current group of four have arrived. */
  #count = 0;

  /** @throws ConnectError InvalidArgument */
  decode(text: Uint8Array): Uint8Array {
    const bytes = Buffer.allocUnsafe(Math.ceil(((text.byteLength + 3) * 3) / 4));
    let [bits, count, end] = [this.#bits, this.#count, 0];
    for (let i = 0; i < text.byteLength; i++) {
      const value = VALUES[text[i] as number] as number;
      if (value < PADDING) {
        bits = (bits << 6) | value;
        if (++count < 4) continue;
        bytes[end++] = bits >> 16;
        bytes[end++] = bits >> 8;
        bytes[end++] = bits;
      } else if (value === PADDING) {
        end = writeRest(bytes, end, { bits, count });
      } else if (value === SPACE) {
        continue;
      } else {
        throw invalidText();
      }
      count = 0;
      bits = 0;
    }
    this.#bits = bits;
    this.#count = count;
    return bytes.subarray(0, end);
  }

  /** The bytes of a last group without padding. @throws ConnectError InvalidArgument */
  end(): Uint8Array {
    const bytes = Buffer.allocUnsafe(2);
    return bytes.subarray(0, writeRest(bytes, 0, { bits: this.#bits, count: this.#count }));
  }
}

/** Decodes a complete text. @throws ConnectError InvalidArgument */
export function decodeWebText(text: Uint8Array): Uint8Array {
  const decoder = new WebTextDecoder();
  const bytes = decoder.decode(text);
  const rest = decoder.end();
  return rest.byteLength === 0 ? bytes : Buffer.concat([bytes, rest]);
}

/** Wraps a handler that serves gRPC-Web, so that it serves gRPC-Web text too. */
export function withWebText(handler: UniversalHandler): UniversalHandler {
  if (!handler.protocolNames.includes("grpc-web")) return handler;
  const serve = async (request: UniversalServerRequest) => {
    const format = formatOf(request.header.get("content-type") ?? undefined);
    if (!format.isText || !format.isKnown) return handler(request);
    const header = new Headers(request.header);
    header.set("content-type", contentTypeOf({ ...format, isText: false }));
    const response = await handler({ ...request, header, body: decoded(request.body as AsyncIterable<Uint8Array>) });
    if (response.header?.get("content-type") == null) return response;
    const answered = new Headers(response.header);
    answered.set("content-type", contentTypeOf(format));
    return { ...response, header: answered, ...(response.body && { body: encoded(response.body) }) };
  };
  return Object.assign(serve, handler);
}

async function* decoded(texts: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  const decoder = new WebTextDecoder();
  for await (const text of texts) yield decoder.decode(text) as Uint8Array<ArrayBuffer>;
  yield decoder.end() as Uint8Array<ArrayBuffer>;
}

async function* encoded(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  for await (const { buffer, byteOffset, byteLength } of pieces) {
    yield Buffer.from(Buffer.from(buffer, byteOffset, byteLength).toString("base64"));
  }
}

function writeRest(bytes: Uint8Array, at: number, group: { readonly bits: number; readonly count: number }): number {
  const { bits, count } = group;
  if (count === 0) return at;
  if (count === 1) throw invalidText();
  bytes[at] = count === 2 ? bits >> 4 : bits >> 10;
  if (count === 2) return at + 1;
  bytes[at + 1] = bits >> 2;
  return at + 2;
}

function invalidText(): ConnectError {
  return new ConnectError("protocol error: invalid base64 in grpc-web-text body", Code.InvalidArgument);
}
