import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { median, type Summary } from "./statistics.ts";
import type { Turn } from "./turns.ts";

/** The pages that the benchmarks write: their titles, and the commands that write them. */
const PAGES = {
  calls: ["What a call costs, beside its peers", "npm run bench"],
  growth: ["What a group takes, and what many groups cost", "npm run bench -- growth"],
  overload: ["Under more than it can do", "npm run bench -- overload"],
} as const;

/** A page of `bench/results/`. */
export type Page = keyof typeof PAGES;

const DOCUMENT = "docs/performance.md";

/**
 * Prints what a benchmark found, as Markdown, and keeps it in `bench/results/` unless it was a part of a run. Where
 * docs/performance.md has the first table of the page, it has the new one from then on.
 */
export function report(text: string, page: Page | undefined): void {
  console.log(text);
  if (page === undefined) {
    console.error("bench/results/ is left as it is: this was a part of a run");
    return;
  }
  const path = `bench/results/${page}.md`;
  const document = readFileSync(DOCUMENT, "utf8");
  const old = existsSync(path) ? firstTable(readFileSync(path, "utf8")) : "";
  if (old !== "")
    writeFileSync(
      DOCUMENT,
      document.replace(old, () => firstTable(text)),
    );
  const [title, command] = PAGES[page];
  const origin = `Written by \`${command}\`; [${DOCUMENT}](../../${DOCUMENT}) says how it is measured.`;
  writeFileSync(path, `# ${title}\n\n${origin}\n\n${text}\n`);
}

/** The first table of a page; empty when it has none. */
export function firstTable(text: string): string {
  return /^\|.*(?:\n\|.*)*/m.exec(text)?.[0] ?? "";
}

/** A table in Markdown. @param columns what stands above each, behind a `>` where it holds figures */
export function table(columns: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  const heads = columns.map((column) => column.replace(/^>/, ""));
  const sides = columns.map((column) => (column.startsWith(">") ? "--:" : "---"));
  return [line(heads), `|${sides.join("|")}|`, ...rows.map(line)].join("\n");
}

/** How quiet the machine was. */
export function noise(turns: readonly Turn[]): string {
  const shares = turns.map(({ othersBusy }) => othersBusy);
  const percent = (share: number) => `${Math.round(100 * share)} %`;
  return `Other processes took ${percent(median(shares))} of the servers' core, at most ${percent(Math.max(...shares))}.`;
}

/** A median with its quartiles; empty when there are no figures. */
export function quartiles(
  { median: middle, low, high }: Summary,
  format: number | ((figure: number) => string),
): string {
  const text = typeof format === "number" ? (figure: number) => figure.toFixed(format) : format;
  return Number.isNaN(middle) ? "" : `${text(middle)} (${text(low)}–${text(high)})`;
}

/** A figure without decimals. */
export function whole(figure: number): string {
  return Math.round(figure).toLocaleString("en");
}
