/* The public interface of the transport; see README.md. Other files of it are imported by tests and the benchmark alone. */
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
export { type ListenOptions, type Port as NodeServer, type ServeOptions, serveNode } from "./http/port.ts";
export type { HeaderRecord, HttpRequest, HttpResponse } from "./http-types.ts";
export { type ClientOf, MAX_HEADER_BYTES } from "./limits.ts";
export type { Authorize, CallHead } from "./protocol/admission.ts";
export { httpStatusOf } from "./protocol/error-responses.ts";
export { headerValue, recordOf } from "./protocol/headers.ts";
export {
  type OnRefused,
  REFUSAL_STATUS,
  type Refusal,
  RefusalError,
  type RefusedRequest,
  SharedError,
  streamRefusal,
} from "./protocol/refusals.ts";
