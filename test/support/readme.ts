import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** The text of the README. */
export const README = readFileSync(fileURLToPath(new URL("../../README.md", import.meta.url)), "utf8");

/** The text of a section, from its heading to the next. @throws when there is none */
export function sectionOf(name: string): string {
  const start = README.indexOf(`\n## ${name}\n`);
  if (start < 0) throw new Error(`the README has no section ${name}`);
  const end = README.indexOf("\n## ", start + 1);
  return README.slice(start, end < 0 ? undefined : end);
}

/** The rows of the tables of a section, without their headings; cells without backticks. */
export function rowsOf(section: string): string[][] {
  const lines = sectionOf(section).split("\n");
  return lines
    .filter((line, i) => line.startsWith("|") && !line.startsWith("|---") && !lines[i + 1]?.startsWith("|---"))
    .map((line) => line.split("|").slice(1, -1))
    .map((cells) => cells.map((cell) => cell.trim().replaceAll("`", "")));
}

/** The blocks of code of a section in one language. */
export function codeOf(section: string, language: string): string[] {
  return [...sectionOf(section).matchAll(/^```(\w+)\n(.*?)^```$/gms)].flatMap(([, name, code = ""]) =>
    name === language ? [code] : [],
  );
}
