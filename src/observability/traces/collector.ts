import { Agent as HttpAgent } from "node:http";
import { Agent as HttpsAgent } from "node:https";
import { setTimeout as pause } from "node:timers/promises";
import { type ExportResult, ExportResultCode } from "@opentelemetry/core";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import type { ReadableSpan, SpanExporter, SpanProcessor } from "@opentelemetry/sdk-trace-base";
import { BatchSpanProcessor } from "@opentelemetry/sdk-trace-base";

/**
 * Called when spans are lost.
 *
 * @param cause `rate`: the spans exceed the rate limit; `queue`: the queue is full or closed; `export`: the collector
 *   did not accept the spans
 * @param spans the number of lost spans
 * @param error the reason, if `cause` is `export`
 */
export type OnLost = (cause: "rate" | "queue" | "export", spans: number, error?: Error) => void;

export interface CollectorTls {
  /** CA certificates used to verify the collector, in PEM. Default: the CA certificates of the runtime. */
  readonly ca: string | undefined;
  /** The client certificate and its key, in PEM. Undefined if the collector requires no client certificate. */
  readonly cert: string | undefined;
  readonly key: string | undefined;
}

/** The maximum number of ended spans that wait for their export, including the spans of export requests in flight. */
const MAX_QUEUE = 2048;

const DELAY_MS = 1000;

const EXPORT_TIMEOUT_MS = 5000;

const CLOSE_MS = 2000;

/** Sends ended spans to the collector in batches. The variables `OTEL_*` contain the URL and the request headers. */
export class Collector implements SpanProcessor {
  readonly #batches: BatchSpanProcessor;
  readonly #onLost: OnLost;
  #exporter: SpanExporter;
  /** The connections of the exporter. Undefined until the exporter sends the first request. */
  #agent: HttpAgent | undefined;
  readonly #exports = new Set<Promise<void>>();
  #waiting = 0;
  #isClosed = false;

  constructor(tls: CollectorTls, onLost: OnLost) {
    this.#onLost = onLost;
    this.#exporter = this.#newExporter(tls);
    const counting: Pick<SpanExporter, "export" | "shutdown"> = {
      export: (spans, done) => this.#export(spans, done),
      shutdown: async () => {},
    };
    this.#batches = new BatchSpanProcessor(counting, { maxQueueSize: MAX_QUEUE, scheduledDelayMillis: DELAY_MS });
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

  useTls(tls: CollectorTls): void {
    this.#exporter = this.#newExporter(tls);
  }

  forceFlush(): Promise<void> {
    return this.#batches.forceFlush();
  }

  /**
   * Waits at most `CLOSE_MS` for the export of the waiting spans, and then drops the spans that are not exported. Never
   * rejects.
   */
  async shutdown(): Promise<void> {
    // Ignore the error, because `#export` has already reported the spans of a failed batch as lost. The shutdown of
    // `BatchSpanProcessor` does not wait for requests in flight, so wait for `#exports` afterwards.
    const sent = this.#batches.shutdown().catch(() => {});
    const allSent = sent.then(() => Promise.all(this.#exports));
    await Promise.race([allSent, pause(CLOSE_MS, undefined, { ref: false })]);
    this.#isClosed = true;
    if (this.#waiting > 0) this.#onLost("export", this.#waiting, new Error("not sent before the end of the process"));
    this.#agent?.destroy();
  }

  #export(spans: ReadableSpan[], done: Parameters<SpanExporter["export"]>[1]): void {
    const sent = this.#send(spans).then((result) => {
      this.#exports.delete(sent);
      if (!this.#isClosed) {
        this.#waiting -= spans.length;
        if (result.code !== ExportResultCode.SUCCESS) this.#onLost("export", spans.length, result.error);
      }
      done(result);
    });
    this.#exports.add(sent);
  }

  #send(spans: ReadableSpan[]): Promise<ExportResult> {
    return new Promise((resolve) => {
      // Limit the total time, because the timeout of the exporter starts again with each byte and each retry.
      const timer = setTimeout(() => {
        const error = new Error(`the collector took longer than ${EXPORT_TIMEOUT_MS / 1000} s`);
        resolve({ code: ExportResultCode.FAILED, error });
        this.#agent?.destroy();
      }, EXPORT_TIMEOUT_MS);
      this.#exporter.export(spans, (result) => {
        clearTimeout(timer);
        resolve(result);
      });
    });
  }

  #newExporter({ ca, cert, key }: CollectorTls): SpanExporter {
    return new OTLPTraceExporter({
      timeoutMillis: EXPORT_TIMEOUT_MS,
      httpAgentOptions: (protocol) => {
        const options = { keepAlive: true };
        this.#agent = protocol === "https:" ? new HttpsAgent({ ...options, ca, cert, key }) : new HttpAgent(options);
        return this.#agent;
      },
    });
  }
}
