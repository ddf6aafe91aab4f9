import type { DescMethod } from "@bufbuild/protobuf";
import { MethodOptions_IdempotencyLevel } from "@bufbuild/protobuf/wkt";
import type { HttpRequest, HttpResponse, RequestHead, Route } from "../exchange.ts";
import type { AdmittedCall } from "./admission.ts";
import { serveConnect } from "./connect.ts";
import { type CallFormat, formatOf, isRpcOnly } from "./content-types.ts";
import { exceedsEnvelope, exceedsWebText } from "./envelopes.ts";
import { errorResponse } from "./error-responses.ts";
import { serveGrpc } from "./grpc.ts";
import type { UnaryMethod } from "./methods.ts";

/** The format of a request to a unary method; undefined when the request must go to Connect's own handler. */
export function unaryFormat(method: UnaryMethod, request: RequestHead): CallFormat | undefined {
  const { httpMethod, headers } = request;
  let format: CallFormat | undefined;
  if (httpMethod === "POST") format = formatOf(headers["content-type"]);
  else if (httpMethod === "GET") format = getFormat(method.desc, request);
  return format?.isKnown && !format.isStream && method.protocols[format.protocol] ? format : undefined;
}

/** The format of Connect's GET. Only methods without side effects have it, and its message is in the query. */
function getFormat({ idempotency }: DescMethod, { target, headers }: RequestHead): CallFormat | undefined {
  if (idempotency !== MethodOptions_IdempotencyLevel.NO_SIDE_EFFECTS) return undefined;
  // A GET needs no content type, but one that is not Connect's is refused.
  const type = headers["content-type"];
  const format = type ? formatOf(type) : undefined;
  if (format && (!format.isKnown || isRpcOnly(format))) return undefined;
  const query = new URL(target, "http://localhost").searchParams;
  const encoding = query.get("encoding");
  if (encoding !== "proto" && encoding !== "json") return undefined;
  return { protocol: "connect", isKnown: true, isBinary: encoding === "proto", isText: false, isStream: false, query };
}

/** The route of an admitted unary call. */
export class UnaryRoute implements Route {
  readonly #method: UnaryMethod;
  readonly #format: CallFormat;
  readonly #admitted: AdmittedCall;

  constructor(method: UnaryMethod, format: CallFormat, admitted: AdmittedCall) {
    this.#method = method;
    this.#format = format;
    this.#admitted = admitted;
  }

  isTooLong(received: Uint8Array): boolean {
    const limit = this.#method.options.readMaxBytes;
    const { protocol, isText } = this.#format;
    if (protocol === "connect") return received.byteLength > limit;
    return isText ? exceedsWebText(received, limit) : exceedsEnvelope(received, limit);
  }

  serve(request: HttpRequest): Promise<HttpResponse> {
    const refused = this.#admitted.begin();
    if (refused) return Promise.resolve(errorResponse(this.#format, refused.error));
    const serve = this.#format.protocol === "connect" ? serveConnect : serveGrpc;
    return serve(this.#method, request, this.#format, this.#admitted);
  }

  end(): void {
    this.#admitted.end();
  }
}
