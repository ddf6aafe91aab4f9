import type { HttpRequest, HttpResponse, RequestHead, Route } from "../exchange.ts";
import type { AdmittedCall } from "./admission.ts";
import { serveConnect } from "./connect.ts";
import { type CallFormat, formatOf } from "./content-types.ts";
import { exceedsEnvelope, exceedsWebText } from "./envelopes.ts";
import { errorResponse } from "./error-responses.ts";
import { serveGrpc } from "./grpc.ts";
import type { UnaryMethod } from "./methods.ts";

/** The format of a POST to a unary method; undefined when the method is not served in that format. */
export function unaryFormat(method: UnaryMethod, { headers }: RequestHead): CallFormat | undefined {
  const format = formatOf(headers["content-type"]);
  return format.isKnown && !format.isStream && method.protocols[format.protocol] ? format : undefined;
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

  get isOpen(): boolean {
    return this.#admitted.isOpen;
  }

  isTooLong(received: Uint8Array): boolean {
    const limit = this.#method.options.readMaxBytes;
    const { protocol, isText } = this.#format;
    if (protocol === "connect") return received.byteLength > limit;
    return isText ? exceedsWebText(received, limit) : exceedsEnvelope(received, limit);
  }

  serve(request: HttpRequest): Promise<HttpResponse> {
    const refused = this.#admitted.begin();
    if (refused) return Promise.resolve(errorResponse(this.#format, refused));
    const serve = this.#format.protocol === "connect" ? serveConnect : serveGrpc;
    return serve(this.#method, request, this.#format, this.#admitted);
  }

  end(): void {
    this.#admitted.end();
  }
}
