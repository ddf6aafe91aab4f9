import type { IncomingMessage, ServerResponse } from "node:http";
import {
  constants,
  createServer,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
} from "node:http2";
import { Code, ConnectError } from "@connectrpc/connect";
import { universalRequestFromNodeRequest, universalResponseToNodeResponse } from "@connectrpc/connect-node";
import type { HeaderRecord, StreamRoute } from "../exchange.ts";
import { prepareStreamHeaders } from "../protocol/stream-headers.ts";
import { ignore, isDisconnected } from "./disconnected.ts";
import type { DispatchOptions } from "./dispatch.ts";
import { discardBodyHttp2, endIfEarlyHttp1 } from "./drain.ts";
import { type ExchangeContext, writeHttp1, writeHttp2 } from "./node-io.ts";
import { OpenStreams } from "./open-streams.ts";

const TOO_MANY = { kind: "too-many-streams" } as const;

/** Serves the streaming calls of a port by Connect's own handlers. */
export class Streams {
  readonly #options: DispatchOptions;
  readonly #context: ExchangeContext;
  readonly #open: OpenStreams;
  /** Makes the request and response objects of streams, as Connect's adapter takes them. It does not listen. */
  readonly #http2 = createServer((req, res) => this.#onRequest(req, res));
  readonly #routes = new WeakMap<ServerHttp2Stream, StreamRoute>();

  constructor(options: DispatchOptions, context: ExchangeContext) {
    this.#options = options;
    this.#context = context;
    this.#open = new OpenStreams(options.streams);
  }

  /** How many streaming calls of a connection are open. */
  countOf(connection: object): number {
    return this.#open.countOf(connection);
  }

  /** Serves a streaming call over HTTP/1.1. */
  http1(route: StreamRoute, req: IncomingMessage, res: ServerResponse): void {
    const open = this.#open.enter(req.socket, () => res.destroy());
    if (!open) {
      req.on("error", ignore);
      res.on("error", ignore);
      const refused = this.#options.refuse(TOO_MANY, req.headers as HeaderRecord, route.handler.method);
      writeHttp1(req, res, refused, this.#context);
      return;
    }
    res.once("close", open.leave);
    endIfEarlyHttp1(req, res);
    this.#serve(route, req, res);
  }

  /** Serves a streaming call over HTTP/2. */
  http2(
    route: StreamRoute,
    stream: ServerHttp2Stream,
    headers: IncomingHttpHeaders,
    rest: readonly [flags: number, rawHeaders: string[]],
  ): void {
    const open = this.#open.enter(stream.session, () => stream.close(constants.NGHTTP2_CANCEL));
    if (!open) {
      const refused = this.#options.refuse(TOO_MANY, headers as HeaderRecord, route.handler.method);
      writeHttp2(stream, refused, this.#context);
      return;
    }
    stream.once("close", open.leave);
    stream.once("finish", () => discardBodyHttp2(stream, this.#context.discards));
    this.#routes.set(stream, route);
    this.#http2.emit("stream", stream, headers, ...rest);
  }

  #onRequest(req: Http2ServerRequest, res: Http2ServerResponse): void {
    const route = this.#routes.get(req.stream);
    if (route) this.#serve(route, req as unknown as IncomingMessage, res as unknown as ServerResponse);
  }

  #serve({ handler, contextValues }: StreamRoute, req: IncomingMessage, res: ServerResponse): void {
    // An `error` event without a listener would end the process.
    req.on("error", ignore);
    res.on("error", ignore);
    const headers = req.headers as HeaderRecord;
    prepareStreamHeaders(headers, this.#open.lifetimeMs);
    const fail = (reason: unknown) => {
      // A response that cannot be written because the client disconnected is not an error of the server.
      if (ConnectError.from(reason).code !== Code.Aborted && !isDisconnected(res)) this.#options.onError?.(reason);
    };
    try {
      handler(universalRequestFromNodeRequest(req, res, undefined, contextValues))
        .then((response) => universalResponseToNodeResponse(response, res))
        .catch(fail);
    } catch (reason) {
      fail(reason);
      res.destroy();
    }
  }
}
