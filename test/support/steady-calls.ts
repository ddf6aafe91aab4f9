import { ConnectError, type Interceptor, type Transport } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport } from "@connectrpc/connect-node";
import { repeat } from "@user-group-service/testing/repeat";
import { bearer } from "./admin.ts";
import { clientOver, connectClient, grpcJsClient } from "./clients/connect.ts";
import { nodeHttpClient } from "./clients/rest.ts";
import type { ServiceClient } from "./clients/types.ts";

interface Target {
  readonly url: string;
  readonly token: string;
}

/**
 * Number of loops per client. Each loop makes one call at a time. If the client uses HTTP/2, its loops share a
 * connection. Several calls can then be in flight on this connection.
 */
const LOOPS = 8;

/** Calls that read and change groups repeatedly. If a call fails, it is counted, and is not repeated. */
export interface SteadyCalls {
  answered(): number;
  /** Number of failed calls so far, by the message of the error. */
  readonly faults: { readonly [fault: string]: number };
  end(): Promise<void>;
}

/**
 * Number of clients so far. Each client uses its number in the ids of its groups, so that no two clients use the same
 * group.
 */
let clients = 0;

function beginCalls({ getUserGroup, updateUserGroup, close }: ServiceClient, token: string): SteadyCalls {
  const headers = bearer(token);
  const client = ++clients;
  let answered = 0;
  const faults: { [fault: string]: number } = {};
  const loop = (i: number) => {
    const userGroupId = `steady ${client} ${i}`;
    const made = getUserGroup({ userGroupId }, headers);
    let n = 0;
    return async () => {
      const name = `name ${n++}`;
      try {
        await made;
        const wrote = await updateUserGroup({ userGroupId, name }, headers);
        const read = await getUserGroup({ userGroupId }, headers);
        if (wrote.group.name !== name || read.group.name !== name)
          throw new Error("a group does not have its new name");
        answered += 2;
      } catch (error) {
        const text = String((error as Error).message);
        faults[text] = (faults[text] ?? 0) + 1;
      }
    };
  };
  // `repeat` pauses between the calls of a loop. So connections are sometimes idle for a short time.
  const calls = repeat(Array.from({ length: LOOPS }, (_, i) => loop(i)));
  return {
    faults,
    answered: () => answered,
    end: async () => {
      await calls.end();
      close();
    },
  };
}

/**
 * Repeats a call once if Node's HTTP/2 client has refused to send it. This client refuses calls after the server has
 * announced the end of the connection. docs/operations/upgrade.md recommends this retry.
 */
const repeatRefused: Interceptor = (next) => async (req) => {
  try {
    return await next(req);
  } catch (error) {
    if (req.stream || !ConnectError.from(error).message.includes("NGHTTP2_REFUSED_STREAM")) throw error;
    return await next(req);
  }
};

const repeating = { interceptors: [repeatRefused] };

function beginOver(transport: Transport, token: string): SteadyCalls {
  return beginCalls(clientOver({ transport, close: () => {} }), token);
}

/** Functions that start the calls of a client, by the library and the protocol of the client. */
export const CLIENTS: { readonly [name: string]: (target: Target) => SteadyCalls } = {
  "grpc-js": ({ url, token }) => beginCalls(grpcJsClient(url), token),
  "connect-node, gRPC": ({ url, token }) => beginOver(createGrpcTransport({ baseUrl: url, ...repeating }), token),
  "connect-node, Connect over HTTP/2": ({ url, token }) =>
    beginOver(createConnectTransport({ baseUrl: url, httpVersion: "2", ...repeating }), token),
  "connect-node, gRPC-Web over HTTP/1.1": ({ url, token }) =>
    beginCalls(connectClient(url, { protocol: "grpc-web", httpVersion: "1.1", binary: true }), token),
  // Some proxies do not forward the body of a GET, so this client sends query strings.
  "node:http, REST": ({ url, token }) => beginCalls(nodeHttpClient(url, { queryOnGet: true }), token),
};
