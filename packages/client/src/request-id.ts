import { ConnectError, type Interceptor } from "@connectrpc/connect";
import { REQUEST_ID_HEADER } from "./failure.ts";

/**
 * Returns an interceptor that sends a request id with each call. If the caller has set no request id, the interceptor
 * sends the result of `newId`. If a call fails, the metadata of the error contains the request id, which the service
 * logs.
 */
export function withRequestIds(newId: () => string): Interceptor {
  return (next) => async (request) => {
    const id = request.header.get(REQUEST_ID_HEADER) ?? newId();
    request.header.set(REQUEST_ID_HEADER, id);
    try {
      return await next(request);
    } catch (error) {
      const failure = ConnectError.from(error);
      // If the service responded, the metadata already contains the request id that the service logged. If the service
      // did not respond, add the id that the client sent, because the service may still have logged the call.
      if (!failure.metadata.has(REQUEST_ID_HEADER)) failure.metadata.set(REQUEST_ID_HEADER, id);
      throw failure;
    }
  };
}
