import { Code, ConnectError } from "@connectrpc/connect";
import { type Compression, compressionNegotiate } from "@connectrpc/connect/protocol";
import {
  codeToHttpStatus,
  contentTypeUnaryJson,
  errorToJsonBytes,
  parseTimeout,
} from "@connectrpc/connect/protocol-connect";
import { bodyBytes, type HttpRequest, type HttpResponse, headerValue } from "../exchange.ts";
import type { AdmittedCall } from "./admission.ts";
import { UnaryCall } from "./call.ts";
import { compress, inflate, shouldCompress } from "./compression.ts";
import { type CallFormat, contentTypeOf } from "./content-types.ts";
import type { UnaryMethod } from "./methods.ts";
import { recordOf } from "./record-headers.ts";
import { asConnectError, messageTooLarge } from "./refusals.ts";
import { invokeCall, parseMessage } from "./requests.ts";

const ENCODING = "content-encoding";
const ACCEPT_ENCODING = "accept-encoding";

/**
 * Serves a unary request of the Connect protocol
 * (https://connectrpc.com/docs/protocol#unary-request).
 */
export function serveConnect(
  method: UnaryMethod,
  request: HttpRequest,
  format: CallFormat,
  admitted: AdmittedCall,
): Promise<HttpResponse> {
  const { options } = method;
  const serialization = format.isBinary ? method.binary : method.json;
  const { headers } = request;
  const timeout = parseTimeout(headerValue(headers, "connect-timeout-ms"), options.maxTimeoutMs);
  const requested = headerValue(headers, ENCODING);
  const accepted = headerValue(headers, ACCEPT_ENCODING);
  const compression = compressionNegotiate(options.acceptCompression, requested, accepted, ACCEPT_ENCODING);
  const decode = () => {
    if (compression.error) throw compression.error;
    if (timeout.error) throw timeout.error;
    const bytes = messageFromBody(request, options.readMaxBytes);
    const limit = options.readMaxBytes;
    if (compression.request === null) return parseMessage(serialization, bytes, limit);
    return inflate(bytes, compression.request, limit).then((message) => parseMessage(serialization, message, limit));
  };

  const call = new UnaryCall({
    method,
    request,
    head: admitted.head,
    timeoutMs: timeout.timeoutMs,
    responseHeader: { "content-type": contentTypeOf(format) },
    responseTrailer: {},
  });
  const fail = (reason: unknown, error: ConnectError) => {
    call.end(reason);
    call.responseHeader.set("content-type", contentTypeUnaryJson);
    error.metadata.forEach((value, name) => {
      call.responseHeader.set(name, value);
    });
    const body = errorToJsonBytes(error, options.jsonOptions);
    return finish(call, codeToHttpStatus(error.code), body, compression.response, method);
  };
  return invokeCall(call, decode, admitted).then(
    (message) => {
      let body: HttpResponse["body"];
      try {
        body = serialization.serialize(message);
      } catch (reason) {
        const error = ConnectError.from(reason, Code.Internal);
        return fail(error, error);
      }
      call.end();
      return finish(call, 200, body, compression.response, method);
    },
    (reason) => fail(reason, asConnectError(reason)),
  );
}

function finish(
  call: UnaryCall,
  status: number,
  body: HttpResponse["body"],
  compression: Compression | null,
  { options }: UnaryMethod,
): HttpResponse | Promise<HttpResponse> {
  const bytes = Buffer.byteLength(body);
  if (!shouldCompress(bytes, compression, options)) return response(call, status, body, bytes);
  return compress(bodyBytes(body), compression).then((compressed) => {
    call.responseHeader.set(ENCODING, compression.name);
    return response(call, status, compressed, compressed.byteLength);
  });
}

function response(call: UnaryCall, status: number, body: HttpResponse["body"], bytes: number): HttpResponse {
  const headers = recordOf(call.responseHeader);
  const trailers = recordOf(call.responseTrailer);
  for (const name in trailers) {
    const known = headers[`trailer-${name}`];
    const values = known === undefined ? [trailers[name]] : [known, trailers[name]];
    headers[`trailer-${name}`] = values.flat().join(", ");
  }
  headers["content-length"] = String(bytes);
  return { status, headers, body };
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
