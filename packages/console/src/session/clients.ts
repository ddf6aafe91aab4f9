import { type Client, createClient, type Interceptor } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { AdminService } from "../../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { UserGroupService } from "../../../../gen/usergroup/v1/user_group_service_pb.ts";
import { withRequestIds } from "../../../client/src/request-id.ts";
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
  const presenting: Interceptor = (next) => (request) => {
    request.header.set("authorization", `Token ${token}`);
    return next({ ...request, signal: AbortSignal.any([request.signal, signal]) });
  };
  const transport = createConnectTransport({
    baseUrl: new URL("..", document.baseURI).href.replace(/\/$/, ""),
    defaultTimeoutMs: TIMEOUT_MS,
    interceptors: [withRequestIds(newRequestId), presenting],
  });
  return { admin: createClient(AdminService, transport), userGroups: createClient(UserGroupService, transport) };
}
