import { cors } from "@connectrpc/connect";
import type { Found, HeaderRecord, Route, StreamRoute } from "../exchange.ts";

/** What pages of other origins may do (https://fetch.spec.whatwg.org/#http-cors-protocol). */
export interface CorsOptions {
  /** The allowed origins; `*` allows every origin. */
  readonly origins: "*" | readonly string[];
  /** Request and response headers that the service uses beside those of Connect's protocols. */
  readonly requestHeaders: readonly string[];
  readonly responseHeaders: readonly string[];
}

/** How long a browser may cache a preflight response, in seconds. This is Chromium's limit. */
const MAX_AGE_SECONDS = 7200;

/** Makes the CORS headers of responses, for listed origins. */
export class Cors {
  readonly #options: CorsOptions;
  readonly #allowHeaders: string;
  readonly #exposeHeaders: string;

  constructor(options: CorsOptions) {
    this.#options = options;
    this.#allowHeaders = [...cors.allowedHeaders, ...options.requestHeaders].join(", ");
    this.#exposeHeaders = [...cors.exposedHeaders, ...options.responseHeaders].join(", ");
  }

  /**
   * The response headers for a request with an `Origin`; they let a listed origin read the response. Undefined for a
   * request without an origin.
   */
  headersFor(request: HeaderRecord): HeaderRecord | undefined {
    const { origin } = request;
    if (typeof origin !== "string") return undefined;
    const { origins } = this.#options;
    // A cache must not reuse this response for an origin that is listed.
    if (origins !== "*" && !origins.includes(origin)) return { vary: "origin" };
    return {
      "access-control-allow-origin": origins === "*" ? "*" : origin,
      "access-control-expose-headers": this.#exposeHeaders,
      vary: "origin",
    };
  }

  /** Adds the CORS headers to the response of a route. */
  withCors(found: Found, request: HeaderRecord): Found {
    const allowed = this.headersFor(request);
    if (!allowed) return found;
    const add = (route: Route | StreamRoute) =>
      "handler" in route ? { ...route, responseHeaders: allowed } : withHeaders(route, allowed);
    return found instanceof Promise ? found.then(add) : add(found);
  }

  /** The headers of the response to a preflight request; undefined for any other request. */
  preflight(httpMethod: string, request: HeaderRecord): HeaderRecord | undefined {
    if (httpMethod !== "OPTIONS" || request["access-control-request-method"] === undefined) return undefined;
    const allowed = this.headersFor(request);
    if (allowed?.["access-control-allow-origin"] === undefined) return { vary: "origin" };
    return {
      ...allowed,
      "access-control-allow-methods": cors.allowedMethods.join(", "),
      "access-control-allow-headers": this.#allowHeaders,
      "access-control-max-age": String(MAX_AGE_SECONDS),
    };
  }
}

/** A route that adds headers to the responses of another. */
function withHeaders(route: Route, added: HeaderRecord): Route {
  return {
    ...(route.isTooLong && { isTooLong: (head, total) => route.isTooLong?.(head, total) === true }),
    serve: async (request) => {
      const response = await route.serve(request);
      return { ...response, headers: { ...response.headers, ...added } };
    },
    end: () => route.end?.(),
  };
}
