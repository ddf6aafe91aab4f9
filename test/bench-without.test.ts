import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "esbuild";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { replaceDeclarations } from "../bench/calls/replace.ts";
import { rowsWithout } from "../bench/calls/without.ts";

describe("the service without an optimisation", () => {
  let folder: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "ugs-without-"));
    await mkdir(join(folder, "src/deep"), { recursive: true });
    await writeFile(
      join(folder, "src/deep/product.ts"),
      [
        "const step = 1;",
        "function next(n: number): number {\n  return n + step;\n}",
        "export class Shown {\n  get text(): string {\n    return 'shown ' + next(1);\n  }\n}",
        "export const twice = (n: number) =>\n  next(next(n));",
        "export const early = twice(0);",
      ].join("\n"),
    );
    await writeFile(
      join(folder, "src/main.ts"),
      'import { early, Shown, twice } from "./deep/product.ts";\nexport const answer = [new Shown().text, twice(1), early];\n',
    );
  });

  afterAll(() => rm(folder, { recursive: true }));

  async function answerWith(variant: string): Promise<unknown> {
    const file = join(folder, "variant.ts");
    await writeFile(file, variant);
    const { outputFiles } = await build({
      entryPoints: [join(folder, "src/main.ts")],
      bundle: true,
      format: "esm",
      write: false,
      plugins: [replaceDeclarations([file], [join(folder, "src")])],
    });
    const code = Buffer.from(outputFiles[0]?.contents ?? []).toString("base64");
    return ((await import(`data:text/javascript;base64,${code}`)) as { answer: unknown }).answer;
  }

  it("replaces a function that is not exported, wherever it is declared", async () => {
    expect(await answerWith("export const next = (original) => (n) => original(n) * 10;")).toEqual([
      "shown 20",
      210,
      110,
    ]);
  });

  it("replaces classes and constants", async () => {
    const shown = "export const Shown = (original) => class extends original { get text() { return 'other'; } };";
    expect(await answerWith(`${shown}\nexport const twice = () => () => 7;`)).toEqual(["other", 7, 7]);
  });

  it("says what is not declared any more", async () => {
    await expect(answerWith("export const gone = () => () => 1;")).rejects.toThrow(/replaces gone, which nothing in/);
  });

  it("finds whatever the variants of bench/without/ replace", async () => {
    const built: string[] = [];
    const rows = await rowsWithout("all", async (outdir) => {
      built.push(outdir);
    });
    expect(rows.length).toBeGreaterThan(2);
    expect(built).toHaveLength(rows.length - 2);
    await expect(rowsWithout("no-such", async () => {})).rejects.toThrow("no-such is not in bench/without/");
  });
});
