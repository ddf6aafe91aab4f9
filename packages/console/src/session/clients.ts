import { type Client, createClient, type Interceptor } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { AdminService } from "../../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { UserGroupService } from "../../../../gen/usergroup/v1/user_group_service_pb.ts";
import { withRequestIds } from "../../../client/src/request-id.ts";
import { newRequestId } from "./request-id.ts";

const TIMEOUT_MS = 15_000;

export interface Clients {
  readonly admin: Client<typeof AdminService>;
  readonly userGroups: Client<typeof UserGroupService>;
}

/**
 * Creates clients of the service that served the page. A proxy may add a path prefix to the URL of the service.
 *
 * @param token the API token that every call sends. The console stores the token only in these clients
 * @param signal aborts the calls in flight
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
