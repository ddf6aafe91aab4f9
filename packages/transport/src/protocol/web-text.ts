import { Code, ConnectError } from "@connectrpc/connect";
import type { UniversalHandler, UniversalServerRequest } from "@connectrpc/connect/protocol";
import { bodyBytes } from "../http-types.ts";
import { formatOf } from "./headers.ts";

/*
 * gRPC-Web text is gRPC-Web with base64 bodies (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-WEB.md). A body
 * may consist of several pieces, and each piece may end with padding. Connect does not support gRPC-Web text.
 */

const SPACES = /[\t\n\r ]+/g;
const TEXT = /^[A-Za-z0-9+/_=-]*$/;

/** Decodes base64 in linear time. The text may be split at any character. */
export class WebTextDecoder {
  /** The characters of an incomplete group of four. */
  #rest = "";

  /** @throws ConnectError InvalidArgument */
  decode(bytes: Uint8Array): Buffer {
    const text = this.#rest + bodyBytes(bytes).toString("latin1").replace(SPACES, "");
    if (!TEXT.test(text)) throw invalidText();
    const complete = text.length - ((text.length - text.lastIndexOf("=") - 1) % 4);
    this.#rest = text.slice(complete);
    const decoded = Buffer.allocUnsafe(Math.ceil((text.length * 3) / 4));
    let end = 0;
    for (const piece of text.slice(0, complete).split(/=+/)) {
      if (piece.length % 4 === 1) throw invalidText();
      end += decoded.write(piece, end, "base64");
    }
    return decoded.subarray(0, end);
  }

  /** Decodes the last group of characters if the group has no padding. @throws ConnectError InvalidArgument */
  end(): Uint8Array {
    if (this.#rest.length === 1) throw invalidText();
    return Buffer.from(this.#rest, "base64");
  }
}

/** Decodes a complete text. @throws ConnectError InvalidArgument */
export function decodeWebText(text: Uint8Array): Buffer {
  const decoder = new WebTextDecoder();
  const bytes = decoder.decode(text);
  const rest = decoder.end();
  return rest.byteLength === 0 ? bytes : Buffer.concat([bytes, rest]);
}

/** Adds support for gRPC-Web text to a gRPC-Web handler. */
export function withWebText(handler: UniversalHandler): UniversalHandler {
  if (!handler.protocolNames.includes("grpc-web")) return handler;
  const serve = async (request: UniversalServerRequest) => {
    const format = formatOf(request.header.get("content-type"));
    if (!format.isText || !format.isKnown) return handler(request);
    const header = new Headers(request.header);
    header.set("content-type", format.responseType.replace("-text", ""));
    const response = await handler({ ...request, header, body: decoded(request.body as AsyncIterable<Uint8Array>) });
    if (response.header?.get("content-type") == null) return response;
    const answered = new Headers(response.header);
    answered.set("content-type", format.responseType);
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
  for await (const piece of pieces) yield Buffer.from(bodyBytes(piece).toString("base64"));
}

function invalidText(): ConnectError {
  return new ConnectError("protocol error: invalid base64 in grpc-web-text body", Code.InvalidArgument);
}
