import { constants } from "node:http2";
import { Code, ConnectError } from "@connectrpc/connect";
import { universalRequestFromNodeRequest, universalResponseToNodeResponse } from "@connectrpc/connect-node";
import type { HeaderRecord, StreamRoute } from "../exchange.ts";
import { prepareStreamHeaders } from "../protocol/stream-headers.ts";
import type { EvictionReason } from "./client-budget.ts";
import { type Exchange, ignore } from "./node-exchange.ts";

/** How long a stream may outlive its deadline when its client does not read, in milliseconds. */
const UNREAD_MS = 30_000;

/**
 * Serves a streaming call of a port by Connect's own handler, unless its client has too many open.
 *
 * @param lifetimeMs how long it may last
 */
export function serveStream({ handler, contextValues }: StreamRoute, exchange: Exchange, lifetimeMs: number): void {
  const { context } = exchange;
  const evict = (reason: EvictionReason) =>
    exchange.reset(reason === "timeout" ? constants.NGHTTP2_CANCEL : constants.NGHTTP2_ENHANCE_YOUR_CALM);
  // The deadline normally ends a stream. The timeout ends streams whose client does not read.
  const timeoutMs = lifetimeMs + Math.min(UNREAD_MS, lifetimeMs);
  const charge = context.streams.charge(exchange.client, { evict }, { timeoutMs });
  if (!charge) {
    exchange.write(context.refuse({ kind: "too-many-streams" }, exchange.headers, handler.method));
    return;
  }
  exchange.response.once("close", () => context.streams.release(charge));
  const [req, res] = exchange.handOver();
  // An `error` event without a listener would end the process.
  req.on("error", ignore);
  res.on("error", ignore);
  prepareStreamHeaders(req.headers as HeaderRecord, lifetimeMs);
  handler(universalRequestFromNodeRequest(req, res, undefined, contextValues))
    .then((response) => universalResponseToNodeResponse(response, res))
    .catch((reason: unknown) => {
      // A response that cannot be written because the client disconnected is not an error of the server.
      if (ConnectError.from(reason).code !== Code.Aborted && !exchange.isDisconnected) context.onError?.(reason);
    });
}
