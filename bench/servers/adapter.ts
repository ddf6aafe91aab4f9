import { once } from "node:events";
import { createServer } from "node:http";
import { createServer as createHttp2Server } from "node:http2";
import type { AddressInfo } from "node:net";
import type { Interceptor } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { type HeaderRecord, recordOf } from "@user-group-service/transport";
import { loadConfig } from "../../src/config/config.ts";
import { openLog } from "../../src/observability/log.ts";
import { CallContext } from "../../src/rpc/call-context.ts";
import { Lifecycle } from "../../src/server/lifecycle.ts";
import { open } from "../../src/server/run.ts";

/**
 * Runs the service with the adapter of Connect instead of our transport. The routes, the interceptors and the store are
 * the same, but connectNodeAdapter handles every request. HTTP/1.1 and HTTP/2 have different ports.
 */
const config = await loadConfig(process.env);
const { app, service: opened } = await open(config, {
  log: await openLog({ level: config.logLevel, secrets: [] }),
  lifecycle: new Lifecycle(),
});
await opened.start();
const { authorize, interceptors = [], ...service } = app.service;
/** Authorizes a request by the headers before Connect reads the body. The transport of the service does the same. */
const authorized: Interceptor = (next) => async (req) => {
  await authorize?.({
    ...req,
    headers: recordOf(req.header),
    protocolName: "connect",
    arrived: Date.now(),
    peerAddress: () => "",
  });
  return next(req);
};
const adapter = connectNodeAdapter({
  ...service,
  interceptors: [authorized, ...interceptors],
  contextValues: ({ headers }) => new CallContext({ protocolName: "connect", headers: headers as HeaderRecord }),
});
const http1 = createServer(adapter as never);
const http2 = createHttp2Server(adapter as never);
http1.listen(config.port, config.host);
http2.listen(0, config.host);
await Promise.all([once(http1, "listening"), once(http2, "listening")]);
const [url, http2Url] = [http1, http2].map(
  (server) => `http://${config.host}:${(server.address() as AddressInfo).port}`,
);
console.log(JSON.stringify({ msg: "listening", url, http2Url }));
