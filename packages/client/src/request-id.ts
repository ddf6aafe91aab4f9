import { ConnectError, type Interceptor } from "@connectrpc/connect";
import { REQUEST_ID_HEADER } from "./failure.ts";

/**
 * Sets a request id for each call without an id. Adds a request id to each error: the id that the service logs.
 */
export function withRequestIds(newId: () => string): Interceptor {
  return (next) => async (request) => {
    const id = request.header.get(REQUEST_ID_HEADER) ?? newId();
    request.header.set(REQUEST_ID_HEADER, id);
    try {
      return await next(request);
    } catch (error) {
      const failure = ConnectError.from(error);
      // The response contains the request id that the service logs. Without a response, the log may contain the id that
      // the client sent.
      if (!failure.metadata.has(REQUEST_ID_HEADER)) failure.metadata.set(REQUEST_ID_HEADER, id);
      throw failure;
    }
  };
}
