export type { OnLost } from "./outlet.ts";
export type { CollectorTls, SamplerName, TraceSettings } from "./settings.ts";
export { type CallStart, type CallTrace, openTraces, type Traces } from "./traces.ts";
