import { readdirSync } from "node:fs";
import { join } from "node:path";
import type { Plugin } from "esbuild";
import { type Row, serviceRow } from "../rows.ts";
import { BUILD_FOLDER } from "../runtimes.ts";
import { CONTROL, type Verdict } from "./differences.ts";
import { replaceDeclarations } from "./replace.ts";

/** Bundles the service into a folder, as `npm run build` does. */
export type BundleService = (outdir: string, plugins?: Plugin[]) => Promise<void>;

const VARIANTS = "bench/without";

/** What gains less of a call's processor time is not worth its keep. */
const MIN_GAIN = 1.03;

/**
 * Builds the service without optimisations, and gives it as rows, with and once
 * more with all of them first.
 *
 * Each file of `bench/without/` leaves one optimisation out. Each of its exports
 * is a function, named after a top-level declaration of ours, that
 * is given what is declared there and returns what takes its place. So the
 * service has no switches, and what moves to another file is found there.
 *
 * @param names a comma list, each a file without extension or several joined by `+`; or `all`
 * @throws when there is no such file, or nothing of ours that it could replace
 */
export async function rowsWithout(names: string, bundle: BundleService): Promise<Row[]> {
  const known = readdirSync(VARIANTS).map((file) => file.replace(/\.ts$/, ""));
  const wanted = names === "all" ? known : names.split(",");
  const rows = [
    serviceRow("node", { title: "nothing" }),
    serviceRow("node", { key: CONTROL, title: "nothing: the same once more" }),
  ];
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

/** Whether an optimisation stays. */
export const isWorthIt: Verdict = (calls) => {
  const gains = calls.filter(({ difference }) => difference === "more");
  if (gains.length === 0) return "gains nothing that can be told from chance";
  return gains.some(({ median }) => median >= MIN_GAIN) ? "stays" : "gains too little";
};
