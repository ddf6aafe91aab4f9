import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { AggregatorRegistry, Registry } from "prom-client";

/** Metrics as prom-client's `getMetricsAsJSON` has them. */
type Collected = Awaited<ReturnType<Registry["getMetricsAsJSON"]>>;

/**
 * How long collected metrics are reused, in milliseconds. Unauthenticated clients may read metrics, and a collection takes
 * 10 to 20 ms of the event loop. The supervisor reuses them for as long, so those of a worker are at most twice as old.
 */
export const METRICS_KEPT_MS = 250;

/**
 * The metrics of several workers, added up as if they were one. Counts of workers that have ended stay in the sums:
 * without them, counters would fall whenever a worker ends, and a monitor would count the rest again. What a worker
 * counted after it was last asked is lost with it.
 */
export class WorkerMetrics {
  /** What each living worker told last. */
  readonly #told = new Map<object, string>();
  /** What the others counted. */
  #ended: Collected[] = [];
  #exits = 0;

  /** @param text what `own` gave in the worker */
  tell(worker: object, text: string): void {
    this.#told.set(worker, text);
  }

  /** Counts the end of a worker. */
  end(worker: object): void {
    this.#exits++;
    const told = JSON.parse(this.#told.get(worker) ?? "[]") as Collected;
    this.#told.delete(worker);
    this.#ended.push(told.filter(({ type }) => (type as unknown) !== "gauge"));
  }

  /** As text: what the running workers last told, and what those that ended had counted, added up. */
  async expose(): Promise<string> {
    const merged = await AggregatorRegistry.aggregate(this.#ended.splice(0)).getMetricsAsJSON();
    this.#ended.push(merged);
    const exits = { ...EXITS, type: "counter", values: [{ value: this.#exits, labels: {} }], aggregator: "sum" };
    const told = [...this.#told.values()].map((text) => JSON.parse(text));
    return AggregatorRegistry.aggregate([...told, merged, [exits]]).metrics();
  }
}

/** The counter of worker processes that ended. */
export const EXITS = {
  name: "ugs_worker_exits_total",
  help: "Worker processes that ended and were started again",
} as const;

const compress = promisify(gzip);

/** A metrics text format. */
type MetricsFormat = "prometheus" | "openmetrics";

/** All metrics in one format. They are encoded and compressed once for all requests. */
export class Exposition {
  readonly contentType: string;
  readonly #text: () => string;
  #body: Buffer | undefined;
  #gzipped: Promise<Uint8Array> | undefined;

  /** @param text in Prometheus' text format */
  constructor(text: string, format: MetricsFormat) {
    this.contentType = format === "openmetrics" ? Registry.OPENMETRICS_CONTENT_TYPE : Registry.PROMETHEUS_CONTENT_TYPE;
    this.#text = () => (format === "openmetrics" ? openMetrics(text) : text);
  }

  get body(): Buffer {
    this.#body ??= Buffer.from(this.#text());
    return this.#body;
  }

  gzipped(): Promise<Uint8Array> {
    this.#gzipped ??= compress(this.body);
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
