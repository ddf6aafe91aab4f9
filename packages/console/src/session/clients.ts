import { type Client, ConnectError, createClient, type Interceptor } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { AdminService } from "../../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { UserGroupService } from "../../../../gen/usergroup/v1/user_group_service_pb.ts";
import { REQUEST_ID_HEADER } from "./failures.ts";
import { newRequestId } from "./request-id.ts";

/** How long a call may take, in milliseconds. */
const TIMEOUT_MS = 15_000;

/** Clients of the service. */
export interface Clients {
  readonly admin: Client<typeof AdminService>;
  readonly userGroups: Client<typeof UserGroupService>;
}

/**
 * Makes clients of the service that the page came from, under whatever path a proxy serves it.
 *
 * @param token sent with every call; it is kept nowhere else
 * @param signal ends the calls under way
 */
export function openClients(token: string, signal: AbortSignal): Clients {
  const presenting: Interceptor = (next) => async (request) => {
    const id = newRequestId();
    request.header.set(REQUEST_ID_HEADER, id);
    request.header.set("authorization", `Token ${token}`);
    try {
      return await next({ ...request, signal: AbortSignal.any([request.signal, signal]) });
    } catch (error) {
      const failure = ConnectError.from(error);
      // The answer has the id that the service took; without an answer, the one that was sent may be in its log.
      if (!failure.metadata.has(REQUEST_ID_HEADER)) failure.metadata.set(REQUEST_ID_HEADER, id);
      throw failure;
    }
  };
  const transport = createConnectTransport({
    baseUrl: new URL("..", document.baseURI).href.replace(/\/$/, ""),
    defaultTimeoutMs: TIMEOUT_MS,
    interceptors: [presenting],
  });
  return { admin: createClient(AdminService, transport), userGroups: createClient(UserGroupService, transport) };
}
