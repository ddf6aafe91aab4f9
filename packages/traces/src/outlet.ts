import { ExportResultCode } from "@opentelemetry/core";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { BatchSpanProcessor, type ReadableSpan, type SpanExporter, type SpanProcessor } from "@opentelemetry/sdk-trace";
import type { CollectorTls, TraceSettings } from "./settings.ts";

/**
 * Called with the number of spans that are lost: beyond the rate, beyond the queue, or in a request that failed, with
 * its error.
 */
export type OnLost = (reason: "rate" | "queue" | "export", spans: number, error?: Error) => void;

/** How many spans wait for the collector at most, those on their way included. */
const MAX_QUEUE = 2048;

/** How many spans go in one request at most. */
const MAX_BATCH = 512;

/** How long a span waits for others, in milliseconds. */
const DELAY_MS = 1000;

/** How long a request may take with its retries, in milliseconds. */
const EXPORT_TIMEOUT_MS = 5000;

/** How long the last spans may take when the process ends, in milliseconds: no shutdown waits long for a dead collector. */
const CLOSE_MS = 2000;

/** Sends ended spans to the collector in batches, and drops them when too many wait. */
export class Outlet implements SpanProcessor {
  readonly #batches: BatchSpanProcessor;
  readonly #onLost: OnLost;
  readonly #open: (tls: CollectorTls) => SpanExporter;
  #exporter: SpanExporter;
  #waiting = 0;
  #isClosed = false;

  constructor({ url, headers, tls }: Pick<TraceSettings, "url" | "headers" | "tls">, onLost: OnLost) {
    this.#onLost = onLost;
    this.#open = ({ ca, cert, key }) => {
      const httpAgentOptions = { keepAlive: true, ...(ca && { ca }), ...(cert && { cert }), ...(key && { key }) };
      const options = { url, headers: { ...headers }, timeoutMillis: EXPORT_TIMEOUT_MS, httpAgentOptions };
      return withoutEnvironment(() => new OTLPTraceExporter(options));
    };
    this.#exporter = this.#open(tls);
    this.#batches = new BatchSpanProcessor({
      exporter: this.#counting(),
      maxQueueSize: MAX_QUEUE,
      maxExportBatchSize: MAX_BATCH,
      scheduledDelayMillis: DELAY_MS,
      // The exporter gives up sooner.
      exportTimeoutMillis: 2 * EXPORT_TIMEOUT_MS,
    });
  }

  onStart(): void {}

  onEnd(span: ReadableSpan): void {
    if (this.#isClosed || this.#waiting >= MAX_QUEUE) {
      this.#onLost("queue", 1);
      return;
    }
    this.#waiting++;
    this.#batches.onEnd(span);
  }

  /** Makes requests from now on use other certificates. */
  useTls(tls: CollectorTls): void {
    const before = this.#exporter;
    this.#exporter = this.#open(tls);
    void before.shutdown();
  }

  forceFlush(): Promise<void> {
    return this.#batches.forceFlush();
  }

  /** Sends the waiting spans for at most `CLOSE_MS`, and drops the rest. Never rejects. */
  async shutdown(): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, CLOSE_MS);
      const sent = () => {
        clearTimeout(timer);
        resolve();
      };
      // A failed batch is reported where it is exported.
      this.#batches.shutdown().then(sent, sent);
    });
    this.#isClosed = true;
    if (this.#waiting > 0) this.#onLost("export", this.#waiting, new Error("not sent before the end of the process"));
    this.#waiting = 0;
  }

  /** An exporter that reports spans that the collector did not take. */
  #counting(): SpanExporter {
    return {
      export: (spans, done) =>
        this.#exporter.export(spans, (result) => {
          if (!this.#isClosed) {
            this.#waiting -= spans.length;
            if (result.code !== ExportResultCode.SUCCESS) this.#onLost("export", spans.length, result.error);
          }
          done(result);
        }),
      shutdown: () => this.#exporter.shutdown(),
    };
  }
}

/** Hides environment variables that the exporter would read by itself: the settings here are validated ones. */
function withoutEnvironment<T>(open: () => T): T {
  const hidden = Object.entries(process.env).filter(([name]) => name.startsWith("OTEL_EXPORTER_OTLP_"));
  for (const [name] of hidden) delete process.env[name];
  try {
    return open();
  } finally {
    Object.assign(process.env, Object.fromEntries(hidden));
  }
}
