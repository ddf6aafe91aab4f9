import {
  codeToHttpStatus,
  contentTypeUnaryJson,
  errorToJsonBytes,
  parseTimeout,
} from "@connectrpc/connect/protocol-connect";
import { bodyBytes, type HttpRequest, type HttpResponse } from "../exchange.ts";
import { compress, inflate } from "./compression.ts";
import { recordOf } from "./headers.ts";
import { messageTooLarge } from "./refusals.ts";
import type { UnaryProtocol, UnaryRoute } from "./unary-route.ts";

const ENCODING = "content-encoding";

/** Unary calls of the Connect protocol (https://connectrpc.com/docs/protocol#unary-request). */
export const connectProtocol: UnaryProtocol = {
  parseTimeout,
  timeoutHeader: "connect-timeout-ms",
  encodingHeader: ENCODING,
  acceptHeader: "accept-encoding",
  isTooLong: ({ byteLength }, { limit }) => byteLength > limit,
  begin: ({ format }) => [{ "content-type": format.responseType }, {}],

  decode(request, route) {
    const bytes = messageFromBody(request, route.limit);
    const compression = route.requestCompression;
    if (compression === null) return route.parse(bytes);
    return inflate(bytes, compression, route.limit).then((message) => route.parse(message));
  },

  encode: (message, { serialization }) => serialization.serialize(message),
  respond: (body, route) => respond(route, 200, body),

  respondError(error, route) {
    const { responseHeader } = route.call;
    responseHeader.set("content-type", contentTypeUnaryJson);
    error.metadata.forEach((value, name) => {
      responseHeader.set(name, value);
    });
    return respond(route, codeToHttpStatus(error.code), errorToJsonBytes(error, route.method.options.jsonOptions));
  },
};

function respond(
  { call: { responseHeader, responseTrailer }, method: { options }, responseCompression: compression }: UnaryRoute,
  status: number,
  body: HttpResponse["body"],
): HttpResponse | Promise<HttpResponse> {
  const finish = (bytes: number, sent: HttpResponse["body"]): HttpResponse => {
    const headers = recordOf(responseHeader);
    const trailers = recordOf(responseTrailer);
    for (const name in trailers) {
      const known = headers[`trailer-${name}`];
      const values = known === undefined ? [trailers[name]] : [known, trailers[name]];
      headers[`trailer-${name}`] = values.flat().join(", ");
    }
    headers["content-length"] = String(bytes);
    return { status, headers, body: sent };
  };
  const bytes = Buffer.byteLength(body);
  if (!compression || bytes < options.compressMinBytes) return finish(bytes, body);
  return compress(bodyBytes(body), compression).then((compressed) => {
    responseHeader.set(ENCODING, compression.name);
    return finish(compressed.byteLength, compressed);
  });
}

/**
 * The body of a POST. A body that is too long was not read to its end, so the error reports the declared size, if there
 * is one.
 */
function messageFromBody({ headers, body }: HttpRequest, maxBytes: number): Uint8Array {
  if (body.byteLength <= maxBytes) return body;
  const declared = Number(headers["content-length"]);
  const size = Number.isSafeInteger(declared) ? `message size ${declared}` : "message size";
  throw messageTooLarge(maxBytes, `${size} is larger than configured readMaxBytes ${maxBytes}`);
}
