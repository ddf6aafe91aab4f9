import { type ClientHttp2Session, connect } from "node:http2";
import {
  type ConnectRouter,
  type ConnectRouterOptions,
  createConnectRouter,
  createContextValues,
} from "@connectrpc/connect";
import { compressionBrotli, compressionGzip } from "@connectrpc/connect-node";
import { openPort } from "../../src/http/port.ts";
import type { Find } from "../../src/http-types.ts";
import { serveNode } from "../../src/index.ts";
import { COMPRESSIONS } from "../../src/protocol/compression.ts";
import { bareRefusal } from "../../src/protocol/refusals.ts";
import { type Effects, talkInterceptors, talkRoutes } from "./differential-service.ts";
import { type RawAnswer, type RawRequest, sendHttp1, sendHttp2 } from "./differential-wire.ts";

/** The maximum length of a message of the test service, in bytes. */
export const MAX_BYTES = 4096;
/** The longest deadline that the test service accepts, in milliseconds. */
const MAX_TIMEOUT_MS = 3_600_000;

/**
 * The number of requests after which `session` opens a new connection. The number is low, because mutated requests
 * cause stream resets, and node:http2 closes a connection after many stream resets.
 */
const REQUESTS_PER_SESSION = 200;

export interface Candidate {
  readonly url: string;
  /** Returns the open HTTP/2 connection, or opens a connection. */
  session(): ClientHttp2Session;
  /** The calls that the interceptors and the implementation have recorded since the last exchange. */
  readonly effects: Effects;
  close(): Promise<void>;
}

export interface Outcome extends RawAnswer {
  readonly effects: Effects;
}

/**
 * Two servers with the same service and options. `ours` serves calls by the transport. `connect` serves calls by
 * Connect's handlers.
 */
export interface Pair {
  readonly ours: Candidate;
  readonly connect: Candidate;
  exchange(request: RawRequest): Promise<{ readonly ours: Outcome; readonly connect: Outcome }>;
  close(): Promise<void>;
}

export async function openPair(
  options: ConnectRouterOptions & { readonly requestPathPrefix?: string } = {},
): Promise<Pair> {
  const [ours, connectOnly] = await Promise.all([openCandidate(options, true), openCandidate(options, false)]);
  return {
    ours,
    connect: connectOnly,
    exchange: async (request) => {
      const [a, b] = await Promise.all([send(ours, request), send(connectOnly, request)]);
      return { ours: a, connect: b };
    },
    close: async () => {
      await Promise.all([ours.close(), connectOnly.close()]);
    },
  };
}

async function openCandidate(
  given: ConnectRouterOptions & { readonly requestPathPrefix?: string },
  ours: boolean,
): Promise<Candidate> {
  const effects: Effects = [];
  const options = {
    routes: talkRoutes(effects),
    interceptors: talkInterceptors(effects),
    acceptCompression: [compressionGzip, compressionBrotli],
    readMaxBytes: MAX_BYTES,
    maxTimeoutMs: MAX_TIMEOUT_MS,
    ...given,
  };
  const where = { host: "127.0.0.1", port: 0 };
  const port = await (ours
    ? serveNode(options, where)
    : openPort({ ...where, find: findAsConnect(options), refuse: bareRefusal }));
  let session: ClientHttp2Session | undefined;
  let requests = 0;
  return {
    url: port.url,
    session: () => {
      if (session === undefined || session.destroyed || session.closed || requests === REQUESTS_PER_SESSION) {
        session?.close();
        requests = 0;
        // Written bytes that are never read count as memory of the connection, so the limit is high.
        session = connect(port.url, { maxSessionMemory: 1000 });
        session.on("error", () => {});
      }
      requests++;
      return session;
    },
    effects,
    close: async () => {
      session?.close();
      port.destroy();
      await port.drain();
    },
  };
}

export async function send(candidate: Candidate, request: RawRequest): Promise<Outcome> {
  candidate.effects.length = 0;
  const answer =
    request.http === 1 ? await sendHttp1(candidate.url, request) : await sendHttp2(candidate.session(), request);
  return { ...answer, effects: candidate.effects.splice(0) };
}

/** Finds Connect's handler for each request, like Connect's adapter for Node. */
function findAsConnect({
  routes,
  requestPathPrefix = "",
  ...options
}: ConnectRouterOptions & {
  readonly routes: (router: ConnectRouter) => void;
  readonly requestPathPrefix?: string;
}): Find {
  // Use the default of the transport, because these tests compare bytes. Connect's default has another Brotli quality.
  const acceptCompression = options.acceptCompression ?? [...COMPRESSIONS];
  const router = createConnectRouter({ ...options, acceptCompression });
  routes(router);
  const handlers = new Map(router.handlers.map((handler) => [requestPathPrefix + handler.requestPath, handler]));
  return ({ target }) => {
    const handler = handlers.get(target.split("?")[0] ?? "");
    if (handler) return { handler, contextValues: createContextValues() };
    return { serve: async () => ({ status: 404, headers: {}, body: "" }) };
  };
}
