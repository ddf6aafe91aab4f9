import { readFileSync } from "node:fs";
import { ROOT } from "./process.ts";

export function textOf(document: string): string {
  return readFileSync(`${ROOT}/${document}`, "utf8");
}

/**
 * Returns the text of a section, from its `##` heading to the next `##` heading. The name "" selects the text before
 * the first `##` heading.
 */
function sectionOf(document: string, name: string): string {
  const text = textOf(document);
  const start = name === "" ? 0 : text.indexOf(`\n## ${name}\n`);
  if (start < 0) throw new Error(`${document} has no section ${name}`);
  const end = text.indexOf("\n## ", start + 1);
  return text.slice(start, end < 0 ? undefined : end);
}

/** Returns the cells of all tables in a section. Leaves out header rows, and removes backticks. */
export function rowsOf(document: string, section: string): string[][] {
  const lines = sectionOf(document, section).split("\n");
  return lines
    .filter((line, i) => line.startsWith("|") && !line.startsWith("|---") && !lines[i + 1]?.startsWith("|---"))
    .map((line) => line.split("|").slice(1, -1))
    .map((cells) => cells.map((cell) => cell.trim().replaceAll("`", "")));
}

/** Returns the list items of a section that have the form `- NAME: TEXT`. Removes backticks. */
export function itemsOf(document: string, section: string): [name: string, text: string][] {
  const items = sectionOf(document, section)
    .replaceAll("`", "")
    .matchAll(/^- (.+?): (.+)$/gm);
  return [...items].map(([, name = "", text = ""]) => [name, text]);
}

const UNITS: { readonly [unit: string]: number } = {
  KiB: 1024,
  MiB: 1024 ** 2,
  ms: 1,
  s: 1000,
  seconds: 1000,
  min: 60_000,
  minutes: 60_000,
  hours: 3_600_000,
  days: 86_400_000,
  billion: 1e9,
};

/**
 * Matches a number, with the exponent, power of ten or unit that may follow the number. Does not match numbers in names
 * such as HTTP/2.
 */
const FIGURE = /(?<![\w./])(\d{1,3}(?:,\d{3})+|\d+(?:\.\d+)?)(?:\^(\d+))?(?: × 10\^(\d+)| (\w+))?/g;

/** Returns all numbers of a text in order. Sizes are converted to bytes, and times to milliseconds. */
export function figuresOf(text: string): number[] {
  return [...text.matchAll(FIGURE)].map(([, number = "", power = 1, ten = 0, unit = ""]) => {
    return Number(number.replaceAll(",", "")) ** Number(power) * 10 ** Number(ten) * (UNITS[unit] ?? 1);
  });
}

/**
 * Returns one array for each result of `rowsOf` and `itemsOf`. `what` is the first cell, or the name of the item.
 * `figures` are all numbers in the remaining cells, or in the text of the item.
 */
export function figuresByRow(document: string, section: string): [what: string, ...figures: number[]][] {
  return [...rowsOf(document, section), ...itemsOf(document, section)].map(([what = "", ...cells]) => [
    what,
    ...figuresOf(cells.join(" | ")),
  ]);
}

export interface Block {
  readonly language: string;
  readonly code: string;
}

export function blocksOf(document: string, section: string): Block[] {
  // In a list item, all lines of a code block have the indent of the first line.
  const found = sectionOf(document, section).matchAll(/^( *)```(\w*)\n(.*?)^\1```$/gms);
  return [...found].map(([, indent = "", language = "", code = ""]) => {
    return { language, code: code.replaceAll(new RegExp(`^${indent}`, "gm"), "") };
  });
}

export function sectionsOf(document: string): string[] {
  return [...textOf(document).matchAll(/^## (.*)$/gm)].map(([, name = ""]) => name);
}
