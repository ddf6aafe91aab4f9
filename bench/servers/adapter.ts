import { loadConfig } from "../../src/config/config.ts";
import { open } from "../../src/run.ts";
import { openPort, streamsAsRequests } from "../../src/transport/port.ts";

/*
 * The service as Connect's own adapter serves it: the same routes, interceptors
 * and store, but every request goes through connectNodeAdapter.
 */
const config = loadConfig(process.env);
const { app } = await open(config);
const { url } = await openPort(config, {
  onHttp1: app.fallback,
  onHttp2: streamsAsRequests(app.fallback as never),
});
console.log(JSON.stringify({ msg: "listening", url }));
