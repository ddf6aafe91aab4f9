import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Plugin } from "esbuild";
import { CONTROL } from "./report.ts";
import { type Row, serviceRow } from "./rows.ts";
import { BUILD_FOLDER } from "./runtimes.ts";

/** Bundles the service into a folder, as `npm run build` does. */
export type BundleService = (outdir: string, plugins?: Plugin[]) => Promise<void>;

const VARIANTS = "bench/without";

/** An export of a variant: what replaces a declaration of that name. */
const EXPORT = /^export (?:const|function) (\w+)/gm;

/**
 * Builds the service without optimisations, and gives it as rows, with and once
 * more with all of them first.
 *
 * Each file of `bench/without/` leaves one optimisation out. Each of its exports
 * is a function, named after a top-level declaration somewhere in `src/`, that
 * is given what is declared there and returns what takes its place. So the
 * service has no switches, and what moves to another file is found there.
 *
 * @param names a comma list, each a file without extension or several joined by `+`; or `all`
 * @throws when there is no such file, or nothing in `src/` that it could replace
 */
export async function rowsWithout(names: string, bundle: BundleService): Promise<Row[]> {
  const known = readdirSync(VARIANTS).map((file) => file.replace(/\.ts$/, ""));
  const wanted = names === "all" ? known : names.split(",");
  const rows = [serviceRow("node"), serviceRow("node", { key: CONTROL, title: "nothing: the same once more" })];
  for (const name of wanted) {
    const parts = name.split("+");
    const unknown = parts.find((part) => !known.includes(part));
    if (unknown !== undefined) throw new Error(`${unknown} is not in ${VARIANTS}/, which has: ${known.join(", ")}`);
    const outdir = join(BUILD_FOLDER, "without", name);
    await bundle(outdir, [replaceDeclarations(parts.map((part) => join(VARIANTS, `${part}.ts`)))]);
    rows.push(serviceRow("node", { key: name, title: name, entry: join(outdir, "main.js") }));
  }
  return rows;
}

/** What replaces a declaration. */
interface Replacement {
  readonly name: string;
  /** Absolute. */
  readonly variant: string;
}

function replaceDeclarations(variants: readonly string[]): Plugin {
  const byFile = new Map<string, Replacement[]>();
  for (const variant of variants) {
    for (const [, name = ""] of readFileSync(variant, "utf8").matchAll(EXPORT)) {
      const file = fileThatDeclares(name, variant);
      byFile.set(file, [...(byFile.get(file) ?? []), { name, variant: resolve(variant) }]);
    }
  }
  return {
    name: "replace-declarations",
    setup(build) {
      build.onLoad({ filter: /\/src\/.*\.ts$/ }, ({ path }) => {
        const replacements = byFile.get(path);
        if (!replacements) return undefined;
        return { contents: replacements.reduce(replaced, readFileSync(path, "utf8")), loader: "ts" };
      });
    },
  };
}

/** The declaration of a name at the top of a module, up to the name. */
function declaration(name: string): RegExp {
  return new RegExp(`^(export )?((?:async )?function|(?:abstract )?class|const|let) ${name}\\b`, "m");
}

/** @throws when no module of `src/` declares it, or several do */
function fileThatDeclares(name: string, variant: string): string {
  const files = sources("src").filter((file) => declaration(name).test(readFileSync(file, "utf8")));
  const [file, other] = files;
  if (file === undefined)
    throw new Error(`${variant} replaces ${name}, which nothing in src/ declares: was it renamed?`);
  if (other !== undefined) throw new Error(`${variant} replaces ${name}, which several declare: ${files.join(", ")}`);
  return resolve(file);
}

function sources(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".ts") && !file.endsWith(".test.ts"))
    .map((file) => join(folder, file));
}

/**
 * A module whose declaration is named otherwise, with what replaces it under its
 * name. Functions can be called before they are declared, so theirs stands in
 * front; what replaces a class or a constant stands behind.
 */
function replaced(source: string, { name, variant }: Replacement): string {
  const match = declaration(name).exec(source);
  if (!match) throw new Error(`${name} is not declared`);
  const [text, exported = "", kind = ""] = match;
  const behind = source.slice(match.index + text.length);
  const rest = `${source.slice(0, match.index)}${kind} original_${name}${behind}`;
  const taken = `import { ${name} as replace_${name} } from ${JSON.stringify(variant)};\n`;
  const replacement = `${exported}const ${name} = replace_${name}(original_${name});\n`;
  return kind.endsWith("function") ? `${taken}${replacement}${rest}` : `${taken}${rest}\n${replacement}`;
}
