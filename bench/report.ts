import { writeFileSync } from "node:fs";
import { median, type Summary } from "./statistics.ts";
import type { Turn } from "./turns.ts";

const PAGES = {
  calls: ["CPU per call, compared with peers", "npm run bench"],
  growth: ["Memory per group, and cost of many groups", "npm run bench -- growth"],
  overload: ["Overload", "npm run bench -- overload"],
} as const;

export type Page = keyof typeof PAGES;

/**
 * Prints the results as Markdown. If `page` is given, writes the results to that page in `bench/results/` as well. The
 * page is undefined if the run was not complete.
 */
export function report(text: string, page: Page | undefined): void {
  console.log(text);
  if (page === undefined) {
    console.error("bench/results/ is unchanged: this was a partial run");
    return;
  }
  const [title, command] = PAGES[page];
  const origin = `Written by \`${command}\`. [bench/README.md](../README.md) explains the method.`;
  writeFileSync(`bench/results/${page}.md`, `# ${title}\n\n${origin}\n\n${text}\n`);
}

/**
 * Formats a Markdown table.
 *
 * @param columns the headings. A heading that starts with `>` is the heading of a column of numbers
 */
export function table(columns: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  const heads = columns.map((column) => column.replace(/^>/, ""));
  const sides = columns.map((column) => (column.startsWith(">") ? "--:" : "---"));
  return [line(heads), `|${sides.join("|")}|`, ...rows.map(line)].join("\n");
}

export function noise(turns: readonly Turn[]): string {
  const shares = turns.map(({ othersBusy }) => othersBusy);
  const percent = (share: number) => `${Math.round(100 * share)} %`;
  return `Other processes used ${percent(median(shares))} of the servers' core (median of the turns), and at most ${percent(Math.max(...shares))}.`;
}

/** Formats a median and the quartiles. Returns an empty text if there are no figures. */
export function quartiles({ median: middle, low, high }: Summary, digits: number): string {
  const [text, from, to] = [middle, low, high].map((figure) => figure.toFixed(digits));
  return Number.isNaN(middle) ? "" : `${text} (${from}–${to})`;
}

export function whole(figure: number): string {
  return Math.round(figure).toLocaleString("en");
}
