import { readFileSync } from "node:fs";
import { brotliDecompressSync, gunzipSync } from "node:zlib";
import { http1, http2 } from "@user-group-service/testing/http";
import { ROOT } from "@user-group-service/testing/process";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { describe, expect, it } from "vitest";
import { newServer } from "./support/opened.ts";
import { expectRestError } from "./support/rest-shape.ts";

const SWAGGER_UI = `${ROOT}/node_modules/swagger-ui-dist`;

/** The paths with their content types and files. If the service generates the content, `file` is undefined. */
const FILES: readonly (readonly [path: string, contentType: string, file: string | undefined])[] = [
  ["/openapi.json", "application/json", `${ROOT}/gen/openapi.json`],
  ["/docs/", "text/html; charset=utf-8", undefined],
  ["/docs/start.js", "text/javascript; charset=utf-8", undefined],
  ["/docs/swagger-ui.css", "text/css; charset=utf-8", `${SWAGGER_UI}/swagger-ui.css`],
  ["/docs/swagger-ui-bundle.js", "text/javascript; charset=utf-8", `${SWAGGER_UI}/swagger-ui-bundle.js`],
];

/** Decoders by encoding. The service does not compress short files. */
const DECODERS: { readonly [encoding: string]: (body: Buffer) => Buffer } = {
  br: brotliDecompressSync,
  gzip: gunzipSync,
};

describe.each(RUNTIMES)("the OpenAPI document and its page on %s", (runtime) => {
  it("the files need no API token, are compressed on request, and support If-None-Match", async () => {
    // Even if METRICS_PORT is set, the main port must serve the document and the page.
    const { url } = await newServer({ runtime, env: { METRICS_PORT: "0" } });
    for (const [path, contentType, file] of FILES) {
      for (const send of [http1, http2]) {
        const whole = await send(url, path);
        expect(whole.status).toBe(200);
        expect(whole.headers).toMatchObject({ "content-type": contentType, "x-content-type-options": "nosniff" });
        expect(whole.headers).not.toHaveProperty("content-encoding");
        if (file) expect(whole.body.equals(readFileSync(file)), path).toBe(true);
        for (const [accepted, encoding] of Object.entries({ "gzip, br;q=0.5": "br", "gzip, br;q=0": "gzip" })) {
          const headers = { "accept-encoding": accepted };
          const { headers: received, body } = await send(url, path, { headers });
          expect(received["content-encoding"], path).toBe(whole.body.byteLength < 1024 ? undefined : encoding);
          expect((DECODERS[received["content-encoding"] ?? ""] ?? ((same) => same))(body).equals(whole.body)).toBe(
            true,
          );
          expect(received["etag"] === whole.headers["etag"]).toBe(whole.body.byteLength < 1024);
          const length = { "content-length": String(body.byteLength), etag: received["etag"] };
          const head = await send(url, path, { method: "HEAD", headers });
          expect(head).toMatchObject({ status: 200, headers: length });
          expect(head.body.byteLength).toBe(0);
          const known = { ...headers, "if-none-match": `"another", W/${received["etag"]}` };
          const again = await send(url, path, { headers: known });
          expect(again).toMatchObject({ status: 304, headers: { etag: received["etag"] } });
          expect(again.headers).not.toHaveProperty("content-length");
        }
      }
    }
    const page = await http1(url, "/docs/");
    expect(page.headers["content-security-policy"]).toBe(
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    );
    expect(await http1(url, "/docs")).toMatchObject({ status: 308, headers: { location: "docs/" } });
    const refused = await http1(url, "/docs/", { method: "POST", body: "{}" });
    expectRestError(refused, { status: 405, code: "unimplemented", reason: "METHOD_NOT_ALLOWED" });
  });
});

it("the OpenAPI document and its page are not served if Deno has no permission to read the files, and a warning is logged", async () => {
  const server = await newServer({ runtime: "deno", denoFlags: ["--allow-read=/nowhere"] });
  expectRestError(await http1(server.url, "/docs/"), { status: 404, code: "not_found", reason: "PATH_NOT_FOUND" });
  const warnings = server.log().filter(({ msg }) => msg.includes("set DOCS=off"));
  expect(warnings).toMatchObject([{ level: "warn", files: expect.arrayContaining([`${ROOT}/gen/openapi.json`]) }]);
});

it("the OpenAPI document and its page are not served with DOCS=off", async () => {
  const { url } = await newServer({ env: { DOCS: "off" } });
  for (const path of ["/docs", ...FILES.map(([path]) => path)])
    expectRestError(await http1(url, path), { status: 404, code: "not_found", reason: "PATH_NOT_FOUND" });
});
