import { ConnectError, type Interceptor, type Transport } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport } from "@connectrpc/connect-node";
import { repeat } from "@user-group-service/testing/repeat";
import { bearer } from "./admin.ts";
import { clientOver, connectClient, grpcJsClient } from "./clients/connect.ts";
import { nodeHttpClient } from "./clients/rest.ts";
import type { ServiceClient } from "./clients/types.ts";

/** Where a client calls, and with which API token. */
interface Target {
  readonly url: string;
  readonly token: string;
}

/** How many loops a client has; each has one call under way at a time, so that most connections have several. */
const LOOPS = 8;

/** The longest pause of a loop between two calls, in milliseconds: connections are idle for moments, and busy for others. */
const LONGEST_PAUSE_MS = 8;

/** Changes and reads groups until it is told to end, and never makes a call again that has failed. */
export interface SteadyCalls {
  /** How many were answered so far, as they should be. */
  answered(): number;
  /** What went wrong so far, and how often. */
  readonly faults: { readonly [fault: string]: number };
  /** Makes no further calls, and waits for those under way. */
  end(): Promise<void>;
}

/** How many there were so far: each has groups of its own. */
let clients = 0;

/** Has a client make calls from now on. */
function beginCalls({ getUserGroup, updateUserGroup, close }: ServiceClient, token: string): SteadyCalls {
  const headers = bearer(token);
  const client = ++clients;
  let answered = 0;
  const faults: { [fault: string]: number } = {};
  const loop = (i: number) => {
    const userGroupId = `steady ${client} ${i}`;
    // Makes the group.
    const made = getUserGroup({ userGroupId }, headers);
    let n = 0;
    return async () => {
      const name = `name ${n++}`;
      try {
        await made;
        const wrote = await updateUserGroup({ userGroupId, name }, headers);
        const read = await getUserGroup({ userGroupId }, headers);
        if (wrote.group.name !== name || read.group.name !== name)
          throw new Error("a group does not have the name that it was given");
        answered += 2;
      } catch (error) {
        const text = String((error as Error).message);
        faults[text] = (faults[text] ?? 0) + 1;
      }
    };
  };
  const calls = repeat(
    Array.from({ length: LOOPS }, (_, i) => loop(i)),
    LONGEST_PAUSE_MS,
  );
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
 * Makes a call again that Node's HTTP/2 client has refused by itself, as docs/operations/upgrade.md says: the server told it that
 * the connection ends before it began the call.
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

/** The clients, by what they are and speak. */
export const CLIENTS: { readonly [name: string]: (target: Target) => SteadyCalls } = {
  "grpc-js": ({ url, token }) => beginCalls(grpcJsClient(url), token),
  "connect-node, gRPC": ({ url, token }) => beginOver(createGrpcTransport({ baseUrl: url, ...repeating }), token),
  "connect-node, Connect over HTTP/2": ({ url, token }) =>
    beginOver(createConnectTransport({ baseUrl: url, httpVersion: "2", ...repeating }), token),
  "connect-node, gRPC-Web over HTTP/1.1": ({ url, token }) =>
    beginCalls(connectClient(url, { protocol: "grpc-web", httpVersion: "1.1", binary: true }), token),
  // A body with GET is not for every proxy.
  "node:http, REST": ({ url, token }) => beginCalls(nodeHttpClient(url, { queryOnGet: true }), token),
};
