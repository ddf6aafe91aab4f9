/* The public interface of the transport. Nothing outside imports any other file of it. See README.md. */
export { requireStrictJson } from "./codec/strict-json.ts";
export type { Endpoint, EndpointCall, EndpointMethod } from "./endpoints.ts";
export type { HeaderRecord, HttpRequest, HttpResponse } from "./exchange.ts";
export { serveFetch } from "./fetch.ts";
export type { FetchServer } from "./http/fetch-dispatch.ts";
export type { Port as NodeServer } from "./http/port.ts";
export { type Limits, type ListenOptions, type ServeOptions, serveNode } from "./node.ts";
export type { Authorize, CallHead } from "./protocol/admission.ts";
export { COMPRESSIONS } from "./protocol/compression.ts";
export { type OnRefused, type Refusal, type RefusedRequest, streamRefusal } from "./protocol/refusals.ts";
