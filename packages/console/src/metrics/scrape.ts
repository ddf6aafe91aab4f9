/** The labels of a series, by name. */
type Labels = { readonly [name: string]: string };

/** A series of metrics. */
export interface Series {
  readonly name: string;
  readonly labels: Labels;
  readonly value: number;
}

/** The metrics of the service at one time. */
export interface Scrape {
  /** When they were read, in milliseconds of a monotonic clock. */
  readonly atMs: number;
  /** By name and labels, as written in the text. */
  readonly series: ReadonlyMap<string, Series>;
}

const LINE = /^(([a-zA-Z_:][\w:]*)(?:\{(.*)\})?) (\S+)(?: -?\d+)?$/;
const LABEL = /(\w+)="((?:\\.|[^"\\])*)"/g;

/**
 * Reads metrics in Prometheus' text format (https://prometheus.io/docs/instrumenting/exposition_formats/). Lines that
 * do not follow it, and values that are not numbers, are skipped.
 */
export function parseScrape(text: string, atMs: number): Scrape {
  const series = new Map<string, Series>();
  for (const line of text.split("\n")) {
    const [, key, name, labels = "", value = ""] = LINE.exec(line) ?? [];
    const number = parseValue(value);
    if (key && name && !Number.isNaN(number)) series.set(key, { name, labels: parseLabels(labels), value: number });
  }
  return { atMs, series };
}

function parseLabels(text: string): Labels {
  return Object.fromEntries([...text.matchAll(LABEL)].map(([, name = "", value = ""]) => [name, unescaped(value)]));
}

function unescaped(text: string): string {
  return text.replace(/\\(.)/g, (_, letter: string) => (letter === "n" ? "\n" : letter));
}

/** A number; `Inf` is written as Go does. */
export function parseValue(text: string): number {
  return text.endsWith("Inf") ? Number(text.replace("Inf", "Infinity")) : Number(text);
}
