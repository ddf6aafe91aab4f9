import { readFileSync } from "node:fs";
import { expect, it } from "vitest";

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly peerDependencies?: { readonly [name: string]: string };
  readonly imports?: { readonly [name: string]: string };
}

const read = (name: string) => JSON.parse(readFileSync(new URL(`../${name}`, import.meta.url), "utf8")) as Manifest;

it("the manifests for npm and for Deno describe the same package", () => {
  const { name, version, peerDependencies = {} } = read("package.json");
  const peers = Object.entries(peerDependencies).map(([peer, range]) => [peer, `npm:${peer}@${range}`]);
  expect(read("deno.json")).toMatchObject({ name, version, imports: Object.fromEntries(peers) });
});
