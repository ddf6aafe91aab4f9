import { constants } from "node:http2";
import { Code, ConnectError } from "@connectrpc/connect";
import { universalRequestFromNodeRequest, universalResponseToNodeResponse } from "@connectrpc/connect-node";
import type { HeaderRecord, StreamRoute } from "../exchange.ts";
import { prepareStreamHeaders } from "../protocol/stream-headers.ts";
import { type Exchange, ignore } from "./node-exchange.ts";
import type { OpenStreams } from "./open-streams.ts";

/** Serves a streaming call of a port by Connect's own handler, unless too many are open. */
export function serveStream({ handler, contextValues }: StreamRoute, exchange: Exchange, open: OpenStreams): void {
  const { context } = exchange;
  const leave = open.enter(exchange.connection, () => exchange.reset(constants.NGHTTP2_CANCEL));
  if (!leave) {
    exchange.write(context.refuse({ kind: "too-many-streams" }, exchange.headers, handler.method));
    return;
  }
  exchange.response.once("close", leave);
  const [req, res] = exchange.handOver();
  // An `error` event without a listener would end the process.
  req.on("error", ignore);
  res.on("error", ignore);
  prepareStreamHeaders(req.headers as HeaderRecord, open.lifetimeMs);
  handler(universalRequestFromNodeRequest(req, res, undefined, contextValues))
    .then((response) => universalResponseToNodeResponse(response, res))
    .catch((reason: unknown) => {
      // A response that cannot be written because the client disconnected is not an error of the server.
      if (ConnectError.from(reason).code !== Code.Aborted && !exchange.isDisconnected) context.onError?.(reason);
    });
}
