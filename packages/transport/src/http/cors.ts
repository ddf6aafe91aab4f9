import { cors } from "@connectrpc/connect";
import type { UniversalHandler, UniversalServerRequest } from "@connectrpc/connect/protocol";
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
  allow(response: HttpResponse, request: HeaderRecord): HttpResponse {
    const allowed = this.#headersFor(request);
    return allowed ? { ...response, headers: merge(response.headers, allowed) } : response;
  }

  /** Adds the headers of `allow` to the responses of a route. */
  allowOf(found: Found, request: HeaderRecord): Found {
    const allowed = this.#headersFor(request);
    if (!allowed) return found;
    return whenKnown(found, (route) => {
      if ("handler" in route) return { ...route, handler: handlerWith(route.handler, allowed) };
      const serve = async (request: HttpRequest) => {
        const response = await route.serve(request);
        return { ...response, headers: merge(response.headers, allowed) };
      };
      return { maxBytes: route.maxBytes, serve, call: route.call };
    });
  }

  /** Returns the response headers of a preflight request; undefined for any other request. */
  preflight(httpMethod: string, request: HeaderRecord): HeaderRecord | undefined {
    if (httpMethod !== "OPTIONS" || request["access-control-request-method"] === undefined) return undefined;
    const allowed = this.#headersFor(request);
    if (allowed?.["access-control-allow-origin"] === undefined) return { vary: "origin" };
    return {
      ...allowed,
      "access-control-allow-methods": "POST",
      "access-control-allow-headers": this.#allowHeaders,
      "access-control-max-age": String(MAX_AGE_SECONDS),
    };
  }

  #headersFor({ origin }: HeaderRecord): HeaderRecord | undefined {
    if (typeof origin !== "string") return undefined;
    const { origins } = this.#options;
    // A cache must not reuse this response for an allowed origin.
    if (origins !== "*" && !origins.includes(origin)) return { vary: "origin" };
    return {
      "access-control-allow-origin": origins === "*" ? "*" : origin,
      "access-control-expose-headers": this.#exposeHeaders,
      vary: "origin",
    };
  }
}

function handlerWith(handler: UniversalHandler, added: HeaderRecord): UniversalHandler {
  const serve = async (request: UniversalServerRequest) => {
    const response = await handler(request);
    return { ...response, header: headersOf(merge(recordOf(response.header ?? new Headers()), added)) };
  };
  return Object.assign(serve, handler);
}

function merge(headers: HeaderRecord, added: HeaderRecord): HeaderRecord {
  return { ...headers, ...added, vary: [headers["vary"] ?? [], added["vary"] ?? []].flat().join(", ") };
}
