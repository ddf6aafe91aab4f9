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

/** How long a message of the test service may be, in bytes. */
export const MAX_BYTES = 4096;
/** The longest deadline that the test service takes. */
const MAX_TIMEOUT_MS = 3_600_000;

/** node:http2 ends a connection on which many streams were reset, which mutated requests do. */
const REQUESTS_PER_SESSION = 200;

/** A server under comparison. */
export interface Candidate {
  readonly url: string;
  /** An HTTP/2 connection; a new one where the last was ended. */
  session(): ClientHttp2Session;
  /** What its service noted since the last exchange. */
  readonly effects: Effects;
  close(): Promise<void>;
}

/** What one request did: the answer, and what the service noted. */
export interface Outcome extends RawAnswer {
  readonly effects: Effects;
}

/** Both servers: the same service, options and port; one with the unary transport before Connect's adapter. */
export interface Pair {
  readonly ours: Candidate;
  readonly connect: Candidate;
  /** Sends the same request to both. */
  exchange(request: RawRequest): Promise<{ readonly ours: Outcome; readonly connect: Outcome }>;
  close(): Promise<void>;
}

/** Opens a pair of servers. */
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
        // What was written and never read counts towards the memory of a connection.
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

/** Sends a request to one server. */
export async function send(candidate: Candidate, request: RawRequest): Promise<Outcome> {
  candidate.effects.length = 0;
  const answer =
    request.http === 1 ? await sendHttp1(candidate.url, request) : await sendHttp2(candidate.session(), request);
  return { ...answer, effects: candidate.effects.splice(0) };
}

/** Sends every request to Connect's own handlers, as its adapter for Node does. */
function findAsConnect({
  routes,
  requestPathPrefix = "",
  ...options
}: ConnectRouterOptions & {
  readonly routes: (router: ConnectRouter) => void;
  readonly requestPathPrefix?: string;
}): Find {
  // The transport's own default, whose Brotli makes less effort than Connect's: here the bytes are compared.
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
