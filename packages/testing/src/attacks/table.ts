import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { PLACES } from "./place.ts";

/** The cost of one attack at one place. */
export interface Row {
  /** Kind of attack. The table groups rows by kind. */
  readonly kind: string;
  readonly attack: string;
  readonly place: string;
  /** CPU time per request, in milliseconds; undefined if the server exited. */
  readonly cpuMs?: number;
  /** Memory per connection, in bytes. */
  readonly heldBytes?: number;
  readonly outcome: string;
}

/** Appends a row to a file. Several test processes write to it. */
export function addRow(file: string, row: Row): void {
  appendFileSync(file, `${JSON.stringify(row)}\n`);
}

/** Formats the rows of a file as a Markdown table; undefined if there are none. */
export function tableOf(file: string): string | undefined {
  if (!existsSync(file)) return undefined;
  const rows = readFileSync(file, "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Row);
  const places = PLACES.map(({ title }) => title).filter((title) => rows.some(({ place }) => place === title));
  const kinds = [...new Set(rows.map(({ kind }) => kind))].sort();
  const lines = kinds.flatMap((kind) => {
    const ofKind = rows.filter((row) => row.kind === kind);
    const attacks = [...new Set(ofKind.map(({ attack }) => attack))];
    const rowOf = (attack: string) => {
      const cells = places.map((title) => cellOf(ofKind.find((row) => row.attack === attack && row.place === title)));
      return `| ${[attack, ...cells].join(" | ")} |`;
    };
    return [`| **${kind}** ${"| ".repeat(places.length)}|`, ...attacks.map(rowOf)];
  });
  const head = ["attack", ...places];
  return [`| ${head.join(" | ")} |`, `|${"---|".repeat(head.length)}`, ...lines].join("\n");
}

function cellOf(row: Row | undefined): string {
  if (!row) return "";
  const { cpuMs, heldBytes, outcome } = row;
  const figures = cpuMs === undefined || heldBytes === undefined ? [] : [`${short(cpuMs)} ms`, sizeOf(heldBytes)];
  return [...figures, outcome].join(", ");
}

function sizeOf(bytes: number): string {
  const kib = Math.max(0, bytes) / 1024;
  return kib < 1000 ? `${short(kib)} KiB` : `${short(kib / 1024)} MiB`;
}

/** Formats a number with two significant digits. */
function short(value: number): string {
  return value === 0 ? "0" : String(Number(value.toPrecision(2)));
}
