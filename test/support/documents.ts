import { readFileSync } from "node:fs";
import { ROOT } from "@user-group-service/testing/process";

/** The documents with tables and blocks of code that tests hold against the service. */
export type Document =
  | "README.md"
  | "CONTRIBUTING.md"
  | "docs/api.md"
  | "docs/cli.md"
  | "docs/legacy-paths.md"
  | "docs/migrate-from-explo.md"
  | "docs/operations.md";

/** The text of a document. */
export function textOf(document: Document): string {
  return readFileSync(`${ROOT}/${document}`, "utf8");
}

/** The text of a section, from its heading to the next. @throws when there is none */
function sectionOf(document: Document, name: string): string {
  const text = textOf(document);
  const start = text.indexOf(`\n## ${name}\n`);
  if (start < 0) throw new Error(`${document} has no section ${name}`);
  const end = text.indexOf("\n## ", start + 1);
  return text.slice(start, end < 0 ? undefined : end);
}

/** The rows of the tables of a section, without their headings; cells without backticks. */
export function rowsOf(document: Document, section: string): string[][] {
  const lines = sectionOf(document, section).split("\n");
  return lines
    .filter((line, i) => line.startsWith("|") && !line.startsWith("|---") && !lines[i + 1]?.startsWith("|---"))
    .map((line) => line.split("|").slice(1, -1))
    .map((cells) => cells.map((cell) => cell.trim().replaceAll("`", "")));
}

/** A block of code of a document. */
export interface Block {
  readonly language: string;
  readonly code: string;
}

/** The blocks of code of a section, in order. */
export function blocksOf(document: Document, section: string): Block[] {
  // One that belongs to an item of a list is indented as a whole.
  const found = sectionOf(document, section).matchAll(/^( *)```(\w*)\n(.*?)^\1```$/gms);
  return [...found].map(([, indent = "", language = "", code = ""]) => {
    return { language, code: code.replaceAll(new RegExp(`^${indent}`, "gm"), "") };
  });
}

/** The headings of the sections of a document. */
export function sectionsOf(document: Document): string[] {
  return [...textOf(document).matchAll(/^## (.*)$/gm)].map(([, name = ""]) => name);
}
