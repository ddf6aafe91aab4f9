import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { PLACES } from "./place.ts";

/** What one attack cost at one place. */
export interface Row {
  /** What kind of attack it is; rows of a kind stand together. */
  readonly kind: string;
  readonly attack: string;
  readonly place: string;
  /** CPU time that the server spent for each request, in milliseconds; undefined where it did not live to tell. */
  readonly cpuMs?: number;
  /** Memory that it held for each connection, in bytes. */
  readonly heldBytes?: number;
  readonly outcome: string;
}

/** Adds a row to a file of rows; tests of several processes write it. */
export function addRow(file: string, row: Row): void {
  appendFileSync(file, `${JSON.stringify(row)}\n`);
}

/** The table of a file of rows, in Markdown; undefined when there are none. */
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

/** Two digits that count. */
function short(value: number): string {
  return value === 0 ? "0" : String(Number(value.toPrecision(2)));
}
