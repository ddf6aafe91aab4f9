import { ConnectError, type Interceptor } from "@connectrpc/connect";
import { REQUEST_ID_HEADER } from "./failure.ts";

/**
 * Sets the request id of each call that has none. Adds the request id of the service's log to errors.
 *
 * @param newId returns a new id
 */
export function withRequestIds(newId: () => string): Interceptor {
  return (next) => async (request) => {
    const id = request.header.get(REQUEST_ID_HEADER) ?? newId();
    request.header.set(REQUEST_ID_HEADER, id);
    try {
      return await next(request);
    } catch (error) {
      const failure = ConnectError.from(error);
      // The response has the id that the service uses. If there is no response, the log of the service may contain the
      // id that the client sent.
      if (!failure.metadata.has(REQUEST_ID_HEADER)) failure.metadata.set(REQUEST_ID_HEADER, id);
      throw failure;
    }
  };
}
