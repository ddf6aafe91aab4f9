import { Agent as HttpAgent } from "node:http";
import { Agent as HttpsAgent } from "node:https";
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

/** How long an export may take with its retries, in milliseconds. */
const EXPORT_TIMEOUT_MS = 5000;

/** How long the last spans may take when the process ends, in milliseconds: no shutdown waits long for a dead collector. */
const CLOSE_MS = 2000;

/** An exporter, and its connections to the collector. */
interface Connected {
  readonly exporter: SpanExporter;
  readonly agent: HttpAgent;
}

/** Sends ended spans to the collector in batches, and drops them when too many wait. */
export class Outlet implements SpanProcessor {
  readonly #batches: BatchSpanProcessor;
  readonly #onLost: OnLost;
  readonly #connect: (tls: CollectorTls) => Connected;
  #connected: Connected;
  #waiting = 0;
  #isClosed = false;

  constructor({ url, headers, tls }: Pick<TraceSettings, "url" | "headers" | "tls">, onLost: OnLost) {
    this.#onLost = onLost;
    this.#connect = ({ ca, cert, key }) => {
      const Agent = new URL(url).protocol === "https:" ? HttpsAgent : HttpAgent;
      const agent = new Agent({ keepAlive: true, ...(ca && { ca }), ...(cert && { cert }), ...(key && { key }) });
      const options = {
        url,
        headers: { ...headers },
        timeoutMillis: EXPORT_TIMEOUT_MS,
        httpAgentOptions: () => agent,
      };
      return { agent, exporter: withoutEnvironment(() => new OTLPTraceExporter(options)) };
    };
    this.#connected = this.#connect(tls);
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
    const { exporter } = this.#connected;
    this.#connected = this.#connect(tls);
    void exporter.shutdown();
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
    const error = new Error("not sent before the end of the process");
    if (this.#waiting > 0) this.#onLost("export", this.#waiting, error);
    this.#waiting = 0;
    closeConnections(this.#connected.agent, error);
  }

  /** An exporter that reports spans that the collector did not take. */
  #counting(): SpanExporter {
    return {
      export: (spans, done) => {
        const { exporter, agent } = this.#connected;
        // The exporter's own timeout begins again with every byte that arrives. Repeated, for a retry that begins at this time.
        const timer = setInterval(() => {
          closeConnections(agent, new Error(`the collector took longer than ${EXPORT_TIMEOUT_MS / 1000} s`));
        }, EXPORT_TIMEOUT_MS);
        exporter.export(spans, (result) => {
          clearInterval(timer);
          if (!this.#isClosed) {
            this.#waiting -= spans.length;
            if (result.code !== ExportResultCode.SUCCESS) this.#onLost("export", spans.length, result.error);
          }
          done(result);
        });
      },
      shutdown: () => this.#connected.exporter.shutdown(),
    };
  }
}

/** Closes the connections that are in use. Their requests fail with this error, and are not sent again. */
function closeConnections({ sockets }: HttpAgent, error: Error): void {
  for (const socket of Object.values(sockets).flat()) socket?.destroy(error);
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
