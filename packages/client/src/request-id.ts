import { ConnectError, type Interceptor } from "@connectrpc/connect";
import { REQUEST_ID_HEADER } from "./failure.ts";

/**
 * Returns an interceptor. If a call has no request id, the interceptor sets one. If a call fails, the interceptor adds
 * a request id to the metadata of the error: the id that the service logs.
 */
export function withRequestIds(newId: () => string): Interceptor {
  return (next) => async (request) => {
    const id = request.header.get(REQUEST_ID_HEADER) ?? newId();
    request.header.set(REQUEST_ID_HEADER, id);
    try {
      return await next(request);
    } catch (error) {
      const failure = ConnectError.from(error);
      // A response contains the request id that the service logs. If there was no response, the service may have logged
      // the id that the client sent.
      if (!failure.metadata.has(REQUEST_ID_HEADER)) failure.metadata.set(REQUEST_ID_HEADER, id);
      throw failure;
    }
  };
}
