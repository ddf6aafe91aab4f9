/** The samplers that OpenTelemetry names (`OTEL_TRACES_SAMPLER`). */
export type SamplerName =
  | "always_on"
  | "always_off"
  | "traceidratio"
  | "parentbased_always_on"
  | "parentbased_always_off"
  | "parentbased_traceidratio";

/** The authorities that a collector's certificate must be of, and a certificate for this process with its key, in PEM. */
export interface CollectorTls {
  /** Undefined: those that the runtime trusts. */
  readonly ca: string | undefined;
  readonly cert: string | undefined;
  readonly key: string | undefined;
}

/** What is traced, and where it is sent. */
export interface TraceSettings {
  /** The URL that OTLP is posted to, such as `http://127.0.0.1:4318/v1/traces`. */
  readonly url: string;
  /** Headers of every such request. They may be secret. */
  readonly headers: { readonly [name: string]: string };
  readonly tls: CollectorTls;
  /** The resource that the traces belong to: `service.name`, and other attributes. */
  readonly resource: { readonly [name: string]: string };
  readonly version: string;
  readonly sampler: SamplerName;
  /** The share of traces that a sampler by ratio takes, from 0 to 1. */
  readonly ratio: number;
}
