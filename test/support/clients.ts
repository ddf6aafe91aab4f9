import { connectClient, grpcJsClient } from "./clients/connect.ts";
import { fetchClient, nodeHttpClient } from "./clients/rest.ts";
import type { ClientProtocol, ServiceClient } from "./clients/types.ts";

export * from "./clients/types.ts";

/** A client library with its protocol and encoding. Each client is one row of the test matrix. */
export interface ClientRow {
  readonly name: string;
  readonly protocol: ClientProtocol;
  /**
   * Whether a GET can have many or long fields. False for `fetch`, because it sends the fields of a GET in the query
   * string, and the length of a URL is limited.
   */
  readonly longGets: boolean;
  readonly open: (url: string) => ServiceClient;
  /**
   * Opens a client that compresses its requests, and accepts compressed responses. Undefined if the client cannot
   * compress requests.
   */
  readonly openGzip?: (url: string) => ServiceClient;
}

export const CLIENTS: readonly ClientRow[] = [
  connectRow("gRPC by connect-node", "grpc", "2", true),
  connectRow("gRPC-Web over HTTP/1.1", "grpc-web", "1.1", true),
  connectRow("Connect JSON over HTTP/1.1", "connect", "1.1", false),
  connectRow("Connect binary over HTTP/1.1", "connect", "1.1", true),
  connectRow("Connect JSON over HTTP/2", "connect", "2", false),
  connectRow("Connect binary over HTTP/2", "connect", "2", true),
  {
    name: "gRPC by grpc-js",
    protocol: "grpc",
    longGets: true,
    open: (url) => grpcJsClient(url),
    openGzip: (url) => grpcJsClient(url, { gzip: true }),
  },
  {
    name: "REST by node:http",
    protocol: "rest",
    longGets: true,
    open: (url) => nodeHttpClient(url),
    openGzip: (url) => nodeHttpClient(url, { gzip: true }),
  },
  { name: "REST by fetch", protocol: "rest", longGets: false, open: fetchClient },
];

/**
 * Opens a client with which a test reads the stored values, to compare them with the response to another client. The
 * opened client uses Connect. Unlike a REST response, a Connect response contains every field of a group.
 */
export function openReference(url: string): ServiceClient {
  return connectClient(url, { protocol: "connect", httpVersion: "1.1", binary: false });
}

function connectRow(
  name: string,
  protocol: "grpc" | "grpc-web" | "connect",
  httpVersion: "1.1" | "2",
  binary: boolean,
): ClientRow {
  const options = { protocol, httpVersion, binary };
  return {
    name,
    protocol,
    longGets: true,
    open: (url) => connectClient(url, options),
    openGzip: (url) => connectClient(url, { ...options, gzip: true }),
  };
}
