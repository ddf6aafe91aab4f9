import { fileURLToPath } from "node:url";
import { type Endpoint, isKnown, readEndpoint } from "@user-group-service/transport";
import { CachedFile } from "./cached-file.ts";

/** The default `Content-Security-Policy`, for files that are not pages. */
const POLICY = "default-src 'none'; frame-ancestors 'none'";

export const CONTENT_TYPES = {
  css: "text/css; charset=utf-8",
  html: "text/html; charset=utf-8",
  json: "application/json",
  script: "text/javascript; charset=utf-8",
} as const;

/**
 * Returns the path of a file. In a build, the file is next to the bundle. If the service runs from sources, the file is
 * at `source` in the repository.
 */
export function pathOf(source: string): string {
  const isBundle = !import.meta.url.endsWith(".ts");
  const beside = source.slice(source.lastIndexOf("/") + 1);
  return fileURLToPath(new URL(isBundle ? beside : `../../../${source}`, import.meta.url));
}

/**
 * Creates an endpoint that serves a file. The endpoint needs no token.
 *
 * @param policy the `Content-Security-Policy`. By default, the file cannot load other files
 */
export function fileEndpoint(read: () => Promise<Buffer>, contentType: string, policy = POLICY): Endpoint {
  const file = new CachedFile(read);
  return readEndpoint(async ({ headers: request }) => {
    const { encoding, etag, body } = await file.encodedFor(request);
    const headers = {
      "content-type": contentType,
      "content-security-policy": policy,
      "x-content-type-options": "nosniff",
      "referrer-policy": "no-referrer",
      "cross-origin-opener-policy": "same-origin",
      "cross-origin-resource-policy": "same-origin",
      // The browser must revalidate its copy, because the next release of the service can have another file.
      "cache-control": "no-cache",
      vary: "accept-encoding",
      etag,
      ...(encoding && { "content-encoding": encoding }),
    };
    return isKnown(etag, request) ? { status: 304, headers, body: "" } : { status: 200, headers, body };
  });
}

/** Creates an endpoint with a permanent redirect. @param location the target, relative to the path of the endpoint */
export function redirectEndpoint(location: string): Endpoint {
  return readEndpoint(async () => ({ status: 308, headers: { location }, body: "" }));
}
