import { readFile } from "node:fs/promises";
import type { Endpoint } from "@user-group-service/transport";
import { CONTENT_TYPES, fileEndpoint, pathOf, redirectEndpoint } from "./files.ts";

/**
 * The page can load files only from the service that serves the page. `data:` allows the images that the style sheet
 * contains. The page can call only this service, so the page cannot send the token to another host.
 */
const PAGE_POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

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
    <div class="swagger-ui">
      <div class="wrapper">
        <label><input type="checkbox" id="changes" autocomplete="off"> Allow calls that change data</label>
      </div>
    </div>
    <div id="swagger-ui"></div>
    <noscript>This page needs JavaScript. The document that it shows is <a href="../openapi.json">openapi.json</a>.</noscript>
  </body>
</html>
`;

// Swagger UI must not use its validator, because the validator runs on another site. Swagger UI must not read options
// from the URL, because the author of a link could set these options.
const START = `/* Masks API tokens in the input fields, and in the curl command that the page shows for a call. */
const masked = ({ React }) => ({
  wrapComponents: {
    Input: (Input) => (props) =>
      React.createElement(Input, /^(auth-bearer-value|api_key_value)$/.test(props.id) ? { ...props, type: "password", autoComplete: "off" } : props),
    curl: (Curl) => ({ request, ...props }) =>
      React.createElement(Curl, { ...props, request: request.update("headers", (headers) => headers?.map(maskedHeader)) }),
  },
});
const maskedHeader = (value, name) => (/authorization$/i.test(name) ? value.replace(/\\S+$/, "API_TOKEN") : value);

/* Until the user allows all calls, offers only calls that change nothing. */
const readOnly = () => ({
  statePlugins: {
    changes: {
      actions: { allow: (areAllowed) => ({ type: "changes_allow", payload: areAllowed }) },
      reducers: { changes_allow: (state, { payload }) => state.set("areAllowed", payload) },
      selectors: { areAllowed: (state) => state.get("areAllowed") === true },
    },
    spec: {
      wrapSelectors: {
        allowTryItOutFor: (_, { changesSelectors, specSelectors }) => (_state, path, method) =>
          changesSelectors.areAllowed() || specSelectors.specJson().getIn(["paths", path, method, "x-read-only"]) === true,
      },
    },
  },
});

const ui = SwaggerUIBundle({
  url: "../openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  filter: true,
  queryConfigEnabled: false,
  validatorUrl: "none",
  plugins: [masked, readOnly],
});
document.getElementById("changes").addEventListener("change", ({ target }) => {
  ui.getSystem().changesActions.allow(target.checked);
});
`;

const SWAGGER_UI = "node_modules/swagger-ui-dist";
const DOCUMENT = pathOf("gen/openapi.json");
const STYLE = pathOf(`${SWAGGER_UI}/swagger-ui.css`);
const SCRIPT = pathOf(`${SWAGGER_UI}/swagger-ui-bundle.js`);

/** The paths of the files. Deno needs permission to read these paths. */
export const DOCS_FILES: readonly string[] = [DOCUMENT, STYLE, SCRIPT];

export function docsEndpoints(): { readonly [path: string]: Endpoint } {
  const { css, html, json, script } = CONTENT_TYPES;
  return {
    "/openapi.json": fileEndpoint(() => readFile(DOCUMENT), json),
    "/docs": redirectEndpoint("docs/"),
    "/docs/": fileEndpoint(async () => Buffer.from(PAGE), html, PAGE_POLICY),
    "/docs/start.js": fileEndpoint(async () => Buffer.from(START), script),
    "/docs/swagger-ui.css": fileEndpoint(() => readFile(STYLE), css),
    "/docs/swagger-ui-bundle.js": fileEndpoint(() => readFile(SCRIPT), script),
  };
}
