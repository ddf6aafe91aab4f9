import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Plugin } from "esbuild";

/** Where the service is, and the packages that a call passes. */
const SOURCES: readonly string[] = ["src", "packages/transport/src", "packages/redis/src"];

/** An export of a variant: what replaces a declaration of that name. */
const EXPORT = /^export (?:const|function) (\w+)/gm;

/** What replaces a declaration. */
interface Replacement {
  readonly name: string;
  /** Absolute. */
  readonly variant: string;
}

/**
 * Has esbuild replace top-level declarations of ours. Each export of a variant
 * is a function, named after what it replaces, that is given what is declared
 * there and returns what takes its place.
 *
 * @param variants files
 * @param folders whose modules declare what is replaced; each is named `src`
 * @throws when nothing in the folders declares such a name, or several modules do
 */
export function replaceDeclarations(variants: readonly string[], folders = SOURCES): Plugin {
  const byFile = new Map<string, Replacement[]>();
  for (const variant of variants) {
    for (const [, name = ""] of readFileSync(variant, "utf8").matchAll(EXPORT)) {
      const file = fileThatDeclares(name, variant, folders);
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

/** @throws when no module declares it, or several do */
function fileThatDeclares(name: string, variant: string, folders: readonly string[]): string {
  const files = folders.flatMap(sources).filter((file) => declaration(name).test(readFileSync(file, "utf8")));
  const [file, other] = files;
  if (file === undefined)
    throw new Error(`${variant} replaces ${name}, which nothing in ${folders.join(", ")} declares: was it renamed?`);
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
 * front; what replaces a class or a constant stands right behind.
 */
function replaced(source: string, { name, variant }: Replacement): string {
  const match = declaration(name).exec(source);
  if (!match) throw new Error(`${name} is not declared`);
  const [text, exported = "", kind = ""] = match;
  const behind = source.slice(match.index + text.length);
  const end = kind.endsWith("function") ? 0 : endOfStatement(behind, kind.endsWith("class"));
  const taken = `import { ${name} as replace_${name} } from ${JSON.stringify(variant)};\n`;
  const replacement = `${exported}const ${name} = replace_${name}(original_${name});\n`;
  const original = `${source.slice(0, match.index)}${kind} original_${name}${behind.slice(0, end)}`;
  return kind.endsWith("function")
    ? `${taken}${replacement}${original}${behind}`
    : `${taken}${original}\n${replacement}${behind.slice(end)}`;
}

/** Where a statement at the top of a formatted module ends: behind it, nothing is indented any more. */
function endOfStatement(text: string, isClass: boolean): number {
  const end = (isClass ? /^\}$/m : /;$(?=\n?(?:\S|\n|$))/m).exec(text);
  return end ? end.index + 1 : text.length;
}
