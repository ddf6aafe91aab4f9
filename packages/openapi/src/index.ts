/* What the service serves of this package. The document itself is made by plugin.ts, which buf runs. */
export { DOCS_FILES, docsEndpoints } from "./page.ts";
