import { readFileSync } from "node:fs";
import { SourceMap } from "node:module";
import { relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";

/** What V8 counted of a script, as its inspector says it. */
export interface ScriptCoverage {
  readonly url: string;
  readonly functions: readonly {
    readonly functionName: string;
    /** The first is the function itself; offsets are in UTF-16 units. */
    readonly ranges: readonly { readonly startOffset: number; readonly count: number }[];
  }[];
}

/** A function of ours that calls pass. */
export interface Passed {
  /** From the root of the repository that was built. */
  readonly file: string;
  readonly name: string;
  /** How often a call runs it. */
  readonly runs: number;
}

/** What runs in fewer calls than every second belongs to none of them. */
const LEAST_RUNS = 0.5;

/**
 * The functions of ours, in the order of files and places, that run in at least every second call.
 *
 * @param scripts what was counted
 * @param calls how many calls were made meanwhile
 * @param dist the folder of the bundle, with its source maps, in the root of its repository
 */
export function functionsPassed(scripts: readonly ScriptCoverage[], calls: number, dist: string): Passed[] {
  const folder = resolve(dist);
  const passed = scripts
    .filter(({ url }) => url.startsWith("file:") && fileURLToPath(url).startsWith(`${folder}/`))
    .flatMap(({ url, functions }) => {
      const often = functions.filter(({ ranges: [own] }) => (own?.count ?? 0) / calls >= LEAST_RUNS);
      const originOf = often.length === 0 ? () => undefined : originsOf(fileURLToPath(url), resolve(folder, ".."));
      return often.flatMap(({ functionName, ranges: [own] }) => {
        const origin = own && originOf(own.startOffset, functionName);
        return origin ? [{ ...origin, runs: own.count / calls }] : [];
      });
    });
  return passed.sort((a, b) => (a.file === b.file ? a.place - b.place : a.file < b.file ? -1 : 1));
}

/** Finds where a function of a script was written. Gives nothing for the function that is a module, and for packages of others. */
function originsOf(script: string, root: string) {
  const map = JSON.parse(readFileSync(`${script}.map`, "utf8"));
  const sources = new SourceMap(map);
  const contents = new Map<string, string>(map.sources.map((name: string, i: number) => [name, map.sourcesContent[i]]));
  const lines: number[] = [0];
  const text = readFileSync(script, "utf8");
  for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", end + 1)) lines.push(end + 1);
  return (offset: number, functionName: string) => {
    const line = lines.findLastIndex((start) => start <= offset);
    const entry = sources.findEntry(line, offset - (lines[line] ?? 0));
    if (offset === 0 || !("originalSource" in entry)) return undefined;
    const file = relative(root, resolve(script, "..", entry.originalSource));
    if (file.startsWith("..") || file.includes("node_modules/")) return undefined;
    const name = nameOf(functionName, contents.get(entry.originalSource) ?? "");
    return { file, name, place: entry.originalLine * 10_000 + entry.originalColumn };
  };
}

/** The name that a function was written with: the bundle puts a number behind it where two modules have the same. */
function nameOf(name: string, source: string): string {
  if (name === "") return "(anonymous)";
  if (/^<(instance|static)_/.test(name)) return "fields";
  const words = new Set(source.match(/[\w$]+/g));
  const isThere = (text: string) => words.has(text.split(/[ .#]/).at(-1) ?? "");
  const written = name.replace(/\d+$/, "");
  return isThere(name) || !isThere(written) ? name : written;
}

/** The functions of each file, as a page shows them: `×` how often a call runs one, unless once. */
export function filesPassed(passed: readonly Passed[]): [file: string, functions: string][] {
  return [...new Set(passed.map(({ file }) => file))].map((file) => {
    const counts = new Map<string, number>();
    for (const { name, runs } of passed.filter((one) => one.file === file)) {
      const text = Math.round(runs) > 1 ? `${name}×${Math.round(runs)}` : name;
      counts.set(text, (counts.get(text) ?? 0) + 1);
    }
    return [file, [...counts].map(([text, count]) => (count > 1 ? `${text} (${count} of them)` : text)).join(", ")];
  });
}
