import { ConnectError, type Interceptor } from "@connectrpc/connect";
import { REQUEST_ID_HEADER } from "./failure.ts";

/**
 * Gives every call that has none an id for the service's log, and its error the id by which that has it.
 *
 * @param newId makes an id
 */
export function withRequestIds(newId: () => string): Interceptor {
  return (next) => async (request) => {
    const id = request.header.get(REQUEST_ID_HEADER) ?? newId();
    request.header.set(REQUEST_ID_HEADER, id);
    try {
      return await next(request);
    } catch (error) {
      const failure = ConnectError.from(error);
      // The answer has the id that the service took; without an answer, the one that was sent may be in its log.
      if (!failure.metadata.has(REQUEST_ID_HEADER)) failure.metadata.set(REQUEST_ID_HEADER, id);
      throw failure;
    }
  };
}
