import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { type Endpoint, type HttpRequest, type HttpResponse, headerValue } from "@user-group-service/transport";
import { HeldFile } from "./held-file.ts";

/**
 * What the page may load: its own files, and images in its style sheet. It may call the service that it came from, and
 * nothing else, so that a token that is typed in goes nowhere else.
 */
const PAGE_POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** Of everything that is not a page. */
const POLICY = "default-src 'none'; frame-ancestors 'none'";

const PAGE = `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title>User Group Service: the API</title>
    <link rel="icon" href="data:,">
    <link rel="stylesheet" href="swagger-ui.css">
    <script src="swagger-ui-bundle.js" defer></script>
    <script src="start.js" defer></script>
  </head>
  <body>
    <div id="swagger-ui"></div>
    <noscript>This page needs JavaScript. The document that it shows is <a href="../openapi.json">openapi.json</a>.</noscript>
  </body>
</html>
`;

// Without a validator of its own choosing, which would be another site; and without what its address asks for.
const START = `SwaggerUIBundle({
  url: "../openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  filter: true,
  queryConfigEnabled: false,
  validatorUrl: "none",
});
`;

/** The files are beside the bundle, or where they are installed and generated. On Deno deno.json lets them be read. */
const SOURCES = "../../../";
const IS_BUNDLE = !import.meta.url.endsWith(".ts");

function pathOf(folder: string, name: string): string {
  return fileURLToPath(new URL(IS_BUNDLE ? name : `${SOURCES}${folder}/${name}`, import.meta.url));
}

const SWAGGER_UI = "node_modules/swagger-ui-dist";
const DOCUMENT = pathOf("gen", "openapi.json");
const STYLE = pathOf(SWAGGER_UI, "swagger-ui.css");
const SCRIPT = pathOf(SWAGGER_UI, "swagger-ui-bundle.js");

/** The paths of the files that are read, for which Deno needs a permission. */
export const DOCS_FILES: readonly string[] = [DOCUMENT, STYLE, SCRIPT];

/**
 * The OpenAPI document, and the page that shows it, by path. Anyone may have them. A file is read and compressed when it
 * is first asked for, and then held once for all requests.
 */
export function docsEndpoints(): { readonly [path: string]: Endpoint } {
  const css = "text/css; charset=utf-8";
  const script = "text/javascript; charset=utf-8";
  return {
    "/openapi.json": endpoint(held(() => readFile(DOCUMENT), "application/json")),
    "/docs": endpoint(async () => ({ status: 308, headers: { location: "docs/" }, body: "" })),
    "/docs/": endpoint(held(async () => Buffer.from(PAGE), "text/html; charset=utf-8", PAGE_POLICY)),
    "/docs/start.js": endpoint(held(async () => Buffer.from(START), script)),
    "/docs/swagger-ui.css": endpoint(held(() => readFile(STYLE), css)),
    "/docs/swagger-ui-bundle.js": endpoint(held(() => readFile(SCRIPT), script)),
  };
}

function endpoint(serve: (request: HttpRequest) => Promise<HttpResponse>): Endpoint {
  return {
    methods: new Map([
      ["GET", { serve }],
      ["HEAD", { serve }],
    ]),
  };
}

/** Serves a file, or says that the client has it (RFC 9110, 13.1.2). */
function held(read: () => Promise<Buffer>, contentType: string, policy = POLICY) {
  const file = new HeldFile(read);
  return async ({ headers: request }: Pick<HttpRequest, "headers">): Promise<HttpResponse> => {
    const { encoding, etag, body } = await file.encodedFor(request);
    const headers = {
      "content-type": contentType,
      "content-security-policy": policy,
      "x-content-type-options": "nosniff",
      "referrer-policy": "no-referrer",
      "cross-origin-opener-policy": "same-origin",
      "cross-origin-resource-policy": "same-origin",
      // A browser asks whether it has changed: another release may answer.
      "cache-control": "no-cache",
      vary: "accept-encoding",
      etag,
      ...(encoding && { "content-encoding": encoding }),
    };
    const known = headerValue(request, "if-none-match");
    const isKnown = known?.split(",").some((each) => ["*", etag, `W/${etag}`].includes(each.trim()));
    return isKnown ? { status: 304, headers, body: "" } : { status: 200, headers, body };
  };
}
