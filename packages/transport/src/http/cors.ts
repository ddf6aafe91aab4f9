import { cors } from "@connectrpc/connect";
import type { UniversalServerRequest } from "@connectrpc/connect/protocol";
import { type Found, type HeaderRecord, type HttpRequest, type HttpResponse, whenKnown } from "../http-types.ts";
import { headersOf, recordOf } from "../protocol/headers.ts";

/** Allows web pages of other origins to call the RPCs (https://fetch.spec.whatwg.org/#http-cors-protocol). */
export interface CorsOptions {
  /** The allowed origins; `*` allows every origin. */
  readonly origins: "*" | readonly string[];
  /** Headers that pages may send (`requestHeaders`) or read (`responseHeaders`), in addition to Connect's headers. */
  readonly requestHeaders: readonly string[];
  readonly responseHeaders: readonly string[];
}

/** The maximum age of a cached preflight response, in seconds. Chromium limits the age to this value. */
const MAX_AGE_SECONDS = 7200;

export class Cors {
  readonly #options: CorsOptions;
  readonly #allowHeaders: string;
  readonly #exposeHeaders: string;

  constructor(options: CorsOptions) {
    this.#options = options;
    this.#allowHeaders = [...cors.allowedHeaders, ...options.requestHeaders].join(", ");
    this.#exposeHeaders = [...cors.exposedHeaders, ...options.responseHeaders].join(", ");
  }

  /** Adds the headers that let an allowed origin read the response. */
  allow<R extends Pick<HttpResponse, "headers">>(response: R, { origin }: HeaderRecord): R {
    if (origin === undefined) return response;
    // A response to an origin that is not allowed also has `vary`, because a cache must not reuse the response for an
    // allowed origin.
    const vary = [response.headers["vary"] ?? [], "origin"].flat().join(", ");
    return { ...response, headers: { ...response.headers, ...this.#allowed(origin), vary } };
  }

  /** Adds the headers of `allow` to the responses of a route. */
  allowOf(found: Found, request: HeaderRecord): Found {
    return whenKnown(found, (route) => {
      if (!("handler" in route)) {
        const serve = async (given: HttpRequest) => this.allow(await route.serve(given), request);
        return { maxBytes: route.maxBytes, serve, call: route.call };
      }
      const serve = async (given: UniversalServerRequest) => {
        const response = await route.handler(given);
        const { headers } = this.allow({ headers: recordOf(response.header ?? new Headers()) }, request);
        return { ...response, header: headersOf(headers) };
      };
      return { ...route, handler: Object.assign(serve, route.handler) };
    });
  }

  /** Returns the response headers of a preflight request; undefined for any other request. */
  preflight(httpMethod: string, request: HeaderRecord): HeaderRecord | undefined {
    if (httpMethod !== "OPTIONS" || request["access-control-request-method"] === undefined) return undefined;
    const allowed = this.#allowed(request["origin"]);
    if (!allowed) return { vary: "origin" };
    return {
      ...allowed,
      "access-control-allow-methods": "POST",
      "access-control-allow-headers": this.#allowHeaders,
      "access-control-max-age": String(MAX_AGE_SECONDS),
      vary: "origin",
    };
  }

  /** Returns the headers for an allowed origin; undefined for any other origin. */
  #allowed(origin: HeaderRecord[string]): HeaderRecord | undefined {
    const { origins } = this.#options;
    if (typeof origin !== "string" || (origins !== "*" && !origins.includes(origin))) return undefined;
    return {
      "access-control-allow-origin": origins === "*" ? "*" : origin,
      "access-control-expose-headers": this.#exposeHeaders,
    };
  }
}
