import type { IncomingMessage, ServerResponse } from "node:http";
import {
  Code,
  ConnectError,
  type ConnectRouter,
  type ConnectRouterOptions,
  type ContextValues,
  createConnectRouter,
} from "@connectrpc/connect";
import type { UniversalHandler } from "@connectrpc/connect/protocol";
import { universalRequestFromNodeRequest, universalResponseToNodeResponse } from "@connectrpc/connect-node";
import { type AdmissionHooks, type Admitted, admitted } from "../protocol/admission.ts";
import type { HeaderRecord } from "../protocol/record-headers.ts";
import { answerNow, protocolOf, refusalOf } from "../protocol/refusals.ts";
import { withWebText } from "../protocol/web-text.ts";
import { asConnectError, type Route } from "../wire.ts";
import { isGone } from "./gone.ts";

/** Options of the adapter: those of Connect's router, and what the adapter adds. */
export interface AdapterOptions extends ConnectRouterOptions, AdmissionHooks {
  readonly routes: (router: ConnectRouter) => void;
  /** Makes the error of a request whose HTTP method the RPC does not have. */
  readonly onMethod: (allowed: readonly string[], handler: UniversalHandler, headers: HeaderRecord) => ConnectError;
  /** Makes the error of a request whose content type the RPC does not have. */
  readonly onContentType: (handler: UniversalHandler, headers: HeaderRecord) => ConnectError;
  /** Hears of a failure that nobody foresaw; its caller is told nothing of it. */
  readonly onError: (error: unknown) => void;
}

/** Connect's own handlers, for streams: what comes in is decided on by its header, as it is for unary calls. */
export class ConnectAdapter {
  readonly #handlers: ReadonlyMap<string, UniversalHandler>;
  readonly #options: AdapterOptions;
  /** What was found out of requests that were let in, by their header. */
  readonly #found = new WeakMap<HeaderRecord, ContextValues>();

  constructor(options: AdapterOptions) {
    this.#options = options;
    const router = createConnectRouter(options);
    options.routes(router);
    this.#handlers = new Map(router.handlers.map((handler) => [handler.requestPath, withWebText(handler)]));
  }

  /** Whether there is an RPC at a path. */
  has(path: string): boolean {
    return this.#handlers.has(path);
  }

  /**
   * The answer to a request that Connect need not look at: its HTTP method or content type is not the RPC's, or it may
   * not come in. Undefined for one that is to be served.
   *
   * @param path one that there is an RPC at
   */
  refuse(httpMethod: string, path: string, headers: HeaderRecord): Route | undefined | Promise<Route | undefined> {
    const handler = this.#handlers.get(path) as UniversalHandler;
    if (!handler.allowedMethods.includes(httpMethod)) {
      return answerNow(refusalOf(headers, this.#options.onMethod(handler.allowedMethods, handler, headers), 405));
    }
    const refuse = (reason: unknown) => answerNow(refusalOf(headers, asConnectError(reason)));
    const letIn = (call: Admitted) => {
      if (!isServed(handler, headers)) {
        return answerNow(refusalOf(headers, this.#options.onContentType(handler, headers), 415));
      }
      this.#found.set(headers, call.contextValues);
      return undefined;
    };
    try {
      const found = admitted(handler.method, protocolOf(headers), headers, this.#options);
      return found instanceof Promise ? found.then(letIn).catch(refuse) : letIn(found);
    } catch (reason) {
      return refuse(reason);
    }
  }

  /** The context values of a request, by its very header. */
  contextValues(headers: HeaderRecord): ContextValues | undefined {
    return this.#found.get(headers) ?? this.#options.contextValues?.({ headers });
  }

  /** Serves a request of node:http, or of node:http2. */
  serve(req: IncomingMessage, res: ServerResponse): void {
    const handler = this.#handlers.get((req.url ?? "").split("?", 1)[0] as string);
    if (!handler) {
      res.writeHead(404).end();
      return;
    }
    const fail = (reason: unknown) => {
      // An answer that cannot be written to a connection that is closed is nobody's fault.
      if (ConnectError.from(reason).code !== Code.Aborted && !isGone(res)) this.#options.onError(reason);
    };
    try {
      const contextValues = this.contextValues(req.headers as HeaderRecord);
      handler(universalRequestFromNodeRequest(req, res, undefined, contextValues))
        .then((response) => universalResponseToNodeResponse(response, res))
        .catch(fail);
    } catch (reason) {
      fail(reason);
      res.destroy();
    }
  }
}

/** What is unary is the unary transport's, in every form that there is of it. */
function isServed({ method, supportedContentType }: UniversalHandler, headers: HeaderRecord): boolean {
  return method.methodKind !== "unary" && supportedContentType(String(headers["content-type"] ?? ""));
}
