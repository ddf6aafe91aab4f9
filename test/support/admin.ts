import { type Timestamp, timestampFromMs } from "@bufbuild/protobuf/wkt";
import { type Client, createClient, type Transport } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { forSuite } from "@user-group-service/testing/opened";
import { AdminService } from "../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { Role } from "../../gen/usergroup/admin/v1/api_token_pb.ts";
import type { AuditEvent } from "../../gen/usergroup/admin/v1/audit_event_pb.ts";
import { ApiEnvironmentTag } from "../../gen/usergroup/v1/user_group_pb.ts";
import type { Role as RoleName } from "../../src/domain/role.ts";
import { type ConnectClientOptions, openTransport } from "./clients/connect.ts";
import { openGrpcJsTransport } from "./clients/grpc-js-transport.ts";
import { ADMIN_TOKEN } from "./server.ts";

export { ADMIN_ENV, ADMIN_TOKEN } from "./server.ts";

export interface AdminClientOptions extends ConnectClientOptions {
  readonly name: string;
  /** Whether the client uses grpc-js instead of connect-node. */
  readonly isGrpcJs?: boolean;
}

export const ADMIN_CLIENTS: readonly AdminClientOptions[] = [
  { name: "gRPC", protocol: "grpc", httpVersion: "2", binary: true },
  { name: "gRPC-Web", protocol: "grpc-web", httpVersion: "1.1", binary: true },
  { name: "Connect JSON", protocol: "connect", httpVersion: "1.1", binary: false },
  { name: "Connect binary", protocol: "connect", httpVersion: "2", binary: true },
  { name: "gRPC by grpc-js", protocol: "grpc", httpVersion: "2", binary: true, isGrpcJs: true },
];

export function openAdminTransport(url: string, { isGrpcJs = false, ...options }: Omit<AdminClientOptions, "name">) {
  return isGrpcJs ? openGrpcJsTransport(url) : openTransport(url, options);
}

/**
 * Returns a function that creates an AdminService client. The client sends a given API token, or ADMIN_TOKEN by
 * default. All these clients share one transport, which is closed after the suite.
 */
export function suiteAdmins(server: { readonly url: string }, options: Omit<AdminClientOptions, "name">) {
  const opened = forSuite(
    () => openAdminTransport(server.url, options),
    ({ close }) => close(),
  );
  return (token = ADMIN_TOKEN) => createClient(AdminService, presenting(opened.transport, token));
}

export const ROLE_VALUES: { readonly [role in RoleName]: Role } = {
  resolve: Role.RESOLVE,
  read: Role.READ,
  manage: Role.MANAGE,
  admin: Role.ADMIN,
};

export function bearer(token: string): { authorization: string } {
  return { authorization: `Token ${token}` };
}

export function adminOf(url: string, token = ADMIN_TOKEN): Client<typeof AdminService> {
  return createClient(AdminService, presenting(createConnectTransport({ baseUrl: url, httpVersion: "1.1" }), token));
}

/** Returns a transport that sends an API token with each call. */
export function presenting(transport: Transport, token: string): Transport {
  const headersWith = (header: HeadersInit | undefined) => {
    const headers = new Headers(header);
    headers.set("authorization", `Token ${token}`);
    return headers;
  };
  return {
    unary: (method, signal, timeoutMs, header, input, values) =>
      transport.unary(method, signal, timeoutMs, headersWith(header), input, values),
    stream: (method, signal, timeoutMs, header, input, values) =>
      transport.stream(method, signal, timeoutMs, headersWith(header), input, values),
  };
}

export function customerOf({ environment }: { readonly environment: string }) {
  return { name: environment, tag: ApiEnvironmentTag.CUSTOMER };
}

export const newName = () => `e${crypto.randomUUID().slice(0, 8)}`;

/** Creates an API token in the customer environment of a server. */
export async function issueToken(server: { readonly url: string; readonly environment: string }, role: RoleName) {
  const request = { environment: customerOf(server), displayName: `of role ${role}`, role: ROLE_VALUES[role] };
  const { token, apiToken } = await adminOf(server.url).createApiToken(request);
  return { token, id: apiToken?.id ?? "" };
}

/**
 * Sets the expiry time of an API token in the customer environment to one second from now. On a busy machine, the call
 * may arrive more than a second later. The service then rejects the call, and this function tries again.
 *
 * @returns the expiry time
 */
export async function endSoon(
  server: { readonly url: string; readonly environment: string },
  apiTokenId: string,
): Promise<Timestamp> {
  for (;;) {
    const end = Date.now() + 1000;
    const expireTime = timestampFromMs(end);
    try {
      await adminOf(server.url).updateApiToken({ environment: customerOf(server), apiTokenId, expireTime });
      return expireTime;
    } catch (error) {
      if (Date.now() < end) throw error;
    }
  }
}

export async function auditEventsOf(
  server: { readonly url: string; readonly environment: string },
  filter: object = {},
): Promise<AuditEvent[]> {
  const admin = adminOf(server.url);
  return allPages(
    (pageToken) => admin.listAuditEvents({ environment: customerOf(server), ...filter, pageToken }),
    ({ auditEvents }) => auditEvents,
  );
}

export async function allPages<P extends { readonly nextPageToken: string }, T>(
  read: (pageToken: string) => Promise<P>,
  itemsOf: (page: P) => readonly T[],
): Promise<T[]> {
  const all: T[] = [];
  let pageToken = "";
  do {
    const page = await read(pageToken);
    all.push(...itemsOf(page));
    pageToken = page.nextPageToken;
  } while (pageToken !== "");
  return all;
}
