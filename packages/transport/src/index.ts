/*
 * The public interface of the transport; see README.md. Outside the transport, only tests and the benchmark import its
 * other files.
 */
export { requireStrictJson } from "./codec/strict-json.ts";
export {
  acceptsEncoding,
  type Endpoint,
  type EndpointCall,
  type EndpointMethod,
  type HttpError,
  isKnown,
  readEndpoint,
} from "./endpoints.ts";
export { type ListenOptions, type NodeServer, type ServeOptions, serveNode } from "./http/port.ts";
export type { HeaderRecord, HttpRequest, HttpResponse, RequestHead } from "./http-types.ts";
export type { ClientOf } from "./limits.ts";
export type { Authorize } from "./protocol/admission.ts";
export type { CallHead } from "./protocol/call.ts";
export { type Caller, CallQueue } from "./protocol/call-queue.ts";
export { headerValue, recordOf } from "./protocol/headers.ts";
export {
  type OnRefused,
  type Refusal,
  RefusalError,
  type RefusedRequest,
  streamRefusal,
} from "./protocol/refusals.ts";
