import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { Registry } from "prom-client";

const compress = promisify(gzip);

/** A format that metrics are read in. */
export type MetricsFormat = "prometheus" | "openmetrics";

/** All metrics as text; what it takes to compress it is done once, for all who ask for it. */
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
 * Prometheus' text format as OpenMetrics 1.0 (https://prometheus.io/docs/specs/om/open_metrics_spec/): a counter's
 * family lacks the suffix of its samples, nothing is empty, and the end is told. prom-client's own way to it renames
 * the metrics that it is asked for, and does not aggregate those of workers.
 */
function openMetrics(text: string): string {
  const renamed = text.replace(COUNTER, "# HELP $1 $2\n# TYPE $1 counter");
  // prom-client spells it in a way of its own.
  const spelled = renamed.replace(/ Nan$/gm, " NaN");
  return `${spelled.replace(/\n{2,}/g, "\n").trimEnd()}\n# EOF\n`;
}

const OPENMETRICS_TYPE = /^application\/openmetrics-text *(?:;|$)/i;
const VERSION = /; *version="?([\d.]+)"?/i;

/** The format that an `Accept` field asks for: Prometheus' own where it does not ask for OpenMetrics 1.0, or wants that less. */
export function formatOf(accept: string | undefined): MetricsFormat {
  const items = (accept ?? "").split(",").map((item) => item.trim());
  const best = (matches: (item: string) => boolean) => Math.max(0, ...items.filter(matches).map(quality));
  const wanted = best((item) => OPENMETRICS_TYPE.test(item) && ["1.0.0", undefined].includes(VERSION.exec(item)?.[1]));
  return wanted > 0 && wanted >= best((item) => item.startsWith("text/plain")) ? "openmetrics" : "prometheus";
}

function quality(item: string): number {
  const text = /; *q=([\d.]+)/i.exec(item)?.[1];
  return text === undefined ? 1 : Number(text) || 0;
}
