import { hash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { newListener } from "@user-group-service/testing/opened";

/**
 * Starts an npm registry that contains only one package. The package must have no dependencies, because the registry
 * does not have them. Stops the registry after the test.
 */
export async function newNpmRegistry(
  tarball: string,
  manifest: { readonly name: string; readonly version: string },
): Promise<string> {
  const bytes = readFileSync(tarball);
  const url = await newListener(
    createServer(({ url: path }, response) => {
      if (path === "/package.tgz") return void response.end(bytes);
      if (path !== `/${manifest.name}`) return void response.writeHead(404).end("{}");
      const { name, version } = manifest;
      const dist = { tarball: `${url}/package.tgz`, integrity: `sha512-${hash("sha512", bytes, "base64")}` };
      const versions = { [version]: { ...manifest, dist } };
      response.setHeader("content-type", "application/json");
      response.end(JSON.stringify({ name, "dist-tags": { latest: version }, versions }));
    }),
  );
  return url;
}
