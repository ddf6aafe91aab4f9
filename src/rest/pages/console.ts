/* The endpoints of the console. The build bundles console.css and the script from packages/console/src/main.tsx. */
import { readFile } from "node:fs/promises";
import type { Endpoint } from "@user-group-service/transport";
import { CONTENT_TYPES, fileEndpoint, pathOf, redirectEndpoint } from "./files.ts";

/**
 * The page can load files only from the service that serves the page, and can call only this service. So the page
 * cannot send the token to another host. No text can become a script (https://www.w3.org/TR/trusted-types/).
 */
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

const PAGE = `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <meta name="color-scheme" content="light dark">
    <title>User Group Service: console</title>
    <link rel="icon" href="data:,">
    <link rel="stylesheet" href="console.css">
    <script src="console.js" defer></script>
  </head>
  <body>
    <div id="console">The console is loading. If this text stays, the script could not be loaded: reload the page.</div>
    <noscript>The console needs JavaScript. You can use the command line, <code>ugs</code>, instead.</noscript>
  </body>
</html>
`;

// The build creates these files. If the service runs from sources, it reads the files of the last build.
const SCRIPT = pathOf("dist/console.js");
const STYLE = pathOf("dist/console.css");

/** The paths of the files. Deno needs permission to read these paths. */
export const CONSOLE_FILES: readonly string[] = [SCRIPT, STYLE];

/** Returns the endpoints of the console, by path. The files are public; all data requires the token of the user. */
export function consoleEndpoints(): { readonly [path: string]: Endpoint } {
  return {
    "/console": redirectEndpoint("console/"),
    "/console/": fileEndpoint(async () => Buffer.from(PAGE), CONTENT_TYPES.html, POLICY),
    "/console/console.js": fileEndpoint(() => readFile(SCRIPT), CONTENT_TYPES.script),
    "/console/console.css": fileEndpoint(() => readFile(STYLE), CONTENT_TYPES.css),
  };
}
