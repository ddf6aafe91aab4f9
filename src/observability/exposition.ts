import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { AggregatorRegistry, Registry } from "prom-client";

/** The metrics of several processes as those of one. @param texts what `own` gave in each */
export function aggregate(texts: readonly string[]): Promise<string> {
  return AggregatorRegistry.aggregate(texts.map((text) => JSON.parse(text))).metrics();
}

const compress = promisify(gzip);

/** A metrics text format. */
export type MetricsFormat = "prometheus" | "openmetrics";

/** All metrics as text. The text is compressed once for all who ask. */
export class Exposition {
  readonly contentType: string;
  readonly text: string;
  #gzipped: Promise<Uint8Array> | undefined;

  /** @param text in Prometheus' text format */
  constructor(text: string, format: MetricsFormat) {
    this.contentType = format === "openmetrics" ? Registry.OPENMETRICS_CONTENT_TYPE : Registry.PROMETHEUS_CONTENT_TYPE;
    this.text = format === "openmetrics" ? openMetrics(text) : text;
  }

  gzipped(): Promise<Uint8Array> {
    this.#gzipped ??= compress(this.text);
    return this.#gzipped;
  }
}

const COUNTER = /^# HELP (\S+)_total (.*)\n# TYPE \1_total counter$/gm;

/**
 * Converts Prometheus' text format to OpenMetrics 1.0 (https://prometheus.io/docs/specs/om/open_metrics_spec/): a
 * counter family's name lacks the suffix `_total`, there are no empty lines, and `# EOF` ends the text. prom-client's
 * own conversion renames metrics in the registry, and does not work on aggregated metrics of workers.
 */
function openMetrics(text: string): string {
  const renamed = text.replace(COUNTER, "# HELP $1 $2\n# TYPE $1 counter");
  // prom-client writes `Nan`, the format demands `NaN`.
  const spelled = renamed.replace(/ Nan$/gm, " NaN");
  return `${spelled.replace(/\n{2,}/g, "\n").trimEnd()}\n# EOF\n`;
}

const OPENMETRICS_TYPE = /^application\/openmetrics-text *(?:;|$)/i;
const VERSION = /; *version="?([\d.]+)"?/i;

/**
 * The format that an `Accept` header asks for: OpenMetrics 1.0 if it is accepted with at least the preference of plain
 * text, else Prometheus.
 */
export function formatOf(accept: string): MetricsFormat {
  const items = accept.split(",").map((item) => item.trim());
  const best = (matches: (item: string) => boolean) => Math.max(0, ...items.filter(matches).map(quality));
  const wanted = best((item) => OPENMETRICS_TYPE.test(item) && ["1.0.0", undefined].includes(VERSION.exec(item)?.[1]));
  return wanted > 0 && wanted >= best((item) => item.startsWith("text/plain")) ? "openmetrics" : "prometheus";
}

function quality(item: string): number {
  const text = /; *q=([\d.]+)/i.exec(item)?.[1];
  return text === undefined ? 1 : Number(text) || 0;
}
