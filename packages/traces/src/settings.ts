/** The samplers that OpenTelemetry names (`OTEL_TRACES_SAMPLER`). */
export type SamplerName =
  | "always_on"
  | "always_off"
  | "traceidratio"
  | "parentbased_always_on"
  | "parentbased_always_off"
  | "parentbased_traceidratio";

/** What is traced, and where it is sent. */
export interface TraceSettings {
  /** The URL that OTLP is posted to, such as `http://127.0.0.1:4318/v1/traces`. */
  readonly url: string;
  /** Headers of every such request. They may be secret. */
  readonly headers: { readonly [name: string]: string };
  /** What the traces are of: `service.name`, and whatever else. */
  readonly resource: { readonly [name: string]: string };
  readonly version: string;
  readonly sampler: SamplerName;
  /** The share of traces that a sampler by ratio takes, from 0 to 1. */
  readonly ratio: number;
}
