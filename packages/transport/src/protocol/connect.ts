import {
  codeToHttpStatus,
  contentTypeUnaryJson,
  errorToJsonBytes,
  parseTimeout,
} from "@connectrpc/connect/protocol-connect";
import { bodyBytes, type HeaderRecord, type HttpResponse } from "../http-types.ts";
import { compress, inflate } from "./compression.ts";
import { recordOf } from "./headers.ts";
import { messageTooLarge, type RefusalError } from "./refusals.ts";
import type { UnaryExchange, UnaryProtocol } from "./unary-protocol.ts";

const ENCODING = "content-encoding";

/** Unary calls of the Connect protocol (https://connectrpc.com/docs/protocol#unary-request). */
export const connectProtocol: UnaryProtocol = {
  parseTimeout,
  timeoutHeader: "connect-timeout-ms",
  encodingHeader: ENCODING,
  acceptHeader: "accept-encoding",
  moreBytes: 0,
  trailers: {},
  alwaysNamesEncoding: false,

  decode({ headers, body }, exchange) {
    const { maxMessageBytes, requestCompression: compression } = exchange;
    if (body.byteLength > maxMessageBytes) throw tooLarge(headers, maxMessageBytes);
    if (compression === null) return exchange.parse(body);
    return inflate(body, compression, maxMessageBytes).then((message) => exchange.parse(message));
  },

  headroom: 0,
  respond,

  respondError(error, exchange) {
    const { responseHeader } = exchange.call;
    responseHeader.set("content-type", contentTypeUnaryJson);
    error.metadata.forEach((value, name) => {
      responseHeader.set(name, value);
    });
    return respond(
      errorToJsonBytes(error, exchange.method.options.jsonOptions),
      exchange,
      codeToHttpStatus(error.code),
    );
  },
};

function respond(
  body: HttpResponse["body"],
  exchange: UnaryExchange,
  status = 200,
): HttpResponse | Promise<HttpResponse> {
  const { responseHeader, responseTrailer } = exchange.call;
  const { responseCompression: compression } = exchange;
  const bytes = Buffer.byteLength(body);
  if (compression && bytes >= exchange.method.options.compressMinBytes) {
    return compress(bodyBytes(body), compression).then((compressed) => {
      responseHeader.set(ENCODING, compression.name);
      exchange.responseCompression = null;
      return respond(compressed, exchange, status);
    });
  }
  const headers = recordOf(responseHeader);
  const trailers = recordOf(responseTrailer);
  for (const name in trailers) {
    const known = headers[`trailer-${name}`];
    const values = known === undefined ? [trailers[name]] : [known, trailers[name]];
    headers[`trailer-${name}`] = values.flat().join(", ");
  }
  headers["content-length"] = String(bytes);
  return { status, headers, body };
}

/**
 * Creates the error for a body that exceeds the limit. Such a body is not read to its end, so its actual size is
 * unknown. If the request declares a size, the message of the error contains the declared size.
 */
function tooLarge(headers: HeaderRecord, maxBytes: number): RefusalError {
  const declared = Number(headers["content-length"]);
  const size = Number.isSafeInteger(declared) ? `message size ${declared}` : "message size";
  return messageTooLarge(maxBytes, `${size} is larger than configured readMaxBytes ${maxBytes}`);
}
