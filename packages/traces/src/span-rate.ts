import {
  type Attributes,
  type Context,
  type Link,
  type Sampler,
  SamplingDecision,
  type SamplingResult,
  type SpanKind,
} from "@opentelemetry/api";
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  ParentBasedSampler,
  TraceIdRatioBasedSampler,
} from "@opentelemetry/sdk-trace";
import type { SamplerName } from "./settings.ts";

const NOT_SAMPLED: SamplingResult = { decision: SamplingDecision.NOT_RECORD };

/**
 * Limits how many spans a process makes in a second. A caller can ask for a trace by one header, so without a limit
 * callers would decide what tracing costs.
 */
export class SpanRate {
  readonly #perSecond: number;
  #left: number;
  #since = performance.now();

  /** @param perSecond also how many may come at once */
  constructor(perSecond: number) {
    this.#perSecond = perSecond;
    this.#left = perSecond;
  }

  /** Counts a span. @returns whether there is room for it */
  take(now = performance.now()): boolean {
    this.#left = Math.min(this.#perSecond, this.#left + ((now - this.#since) / 1000) * this.#perSecond);
    this.#since = now;
    if (this.#left < 1) return false;
    this.#left--;
    return true;
  }
}

/** A sampler that takes no more spans than a rate allows. */
export class BoundedSampler implements Sampler {
  readonly #sampler: Sampler;
  readonly #rateOf: (kind: SpanKind, attributes: Attributes) => SpanRate;
  readonly #onRefused: () => void;

  /**
   * @param rateOf the rate that a span counts towards
   * @param onRefused called when the sampler takes a span but the rate is exceeded
   */
  constructor(sampler: Sampler, rateOf: (kind: SpanKind, attributes: Attributes) => SpanRate, onRefused: () => void) {
    this.#sampler = sampler;
    this.#rateOf = rateOf;
    this.#onRefused = onRefused;
  }

  shouldSample(
    context: Context,
    traceId: string,
    name: string,
    kind: SpanKind,
    attributes: Attributes,
    links: Link[],
  ): SamplingResult {
    const result = this.#sampler.shouldSample(context, traceId, name, kind, attributes, links);
    if (result.decision === SamplingDecision.NOT_RECORD || this.#rateOf(kind, attributes).take()) return result;
    this.#onRefused();
    return NOT_SAMPLED;
  }

  toString(): string {
    return `Bounded{${this.#sampler.toString()}}`;
  }
}

/** Makes the sampler of a name. @param ratio of those by ratio, from 0 to 1 */
export function samplerOf(name: SamplerName, ratio: number): Sampler {
  const root = name.endsWith("always_off")
    ? new AlwaysOffSampler()
    : name.endsWith("always_on")
      ? new AlwaysOnSampler()
      : new TraceIdRatioBasedSampler(ratio);
  return name.startsWith("parentbased_") ? new ParentBasedSampler({ root }) : root;
}
