import type { ClientHttp2Session } from "node:http2";
import { answerOn, type HttpAnswer, overHttp2 } from "../http.ts";
import { waitFor } from "../wait.ts";
import type { Effort, Target } from "./attack.ts";
import type { Http2Wire } from "./http2-wire.ts";
import type { post } from "./requests.ts";

/** Sends a request with a compliant HTTP/2 client. @throws if the stream or the connection fails */
export async function ask(
  session: ClientHttp2Session,
  fields: readonly (readonly [string, string])[],
  body: Uint8Array,
): Promise<HttpAnswer> {
  const { ":authority": _authority, ...headers } = Object.fromEntries(fields);
  const stream = session.request(headers, { endStream: false });
  stream.end(body);
  const answer = await answerOn(stream);
  if (stream.rstCode !== 0) throw new Error(`reset ${stream.rstCode}`);
  return answer;
}

/** Creates an attack that sends `times` requests on one HTTP/2 connection, one after another. */
export function asking(
  title: string,
  times: number,
  cpuMs: number,
  fieldsOf: (i: number) => ReturnType<typeof post>,
  body: Uint8Array = Buffer.alloc(0),
) {
  return {
    title,
    bounds: { cpuMs },
    run: (target: Target): Promise<Effort> =>
      overHttp2(target.server.url, async (session) => {
        for (let i = 0; i < times; i++) await ask(session, fieldsOf(i), body).catch(() => {});
        return { requests: times, outcome: "answered" };
      }),
  };
}

/**
 * Sends the same request over HTTP/1.1, `times` times. Opens a new connection for each request. Waits for each response
 * before it sends the next request.
 */
export async function repeat(target: Target, times: number, request: string, body: Buffer): Promise<number> {
  for (let i = 0; i < times; i++) {
    const wire = await target.http1();
    const isSent = await wire.send(Buffer.concat([Buffer.from(request), body]));
    if (isSent) await waitFor("a response arrives", () => wire.isClosed || wire.receivedBytes > 0);
    wire.close();
  }
  return times;
}

/** Opens connections, and sends a hundred requests on each connection. The client closes no stream. */
export async function crowd(
  connections: number,
  open: () => Promise<Http2Wire>,
  askOnce: (http2: Http2Wire) => Promise<unknown>,
): Promise<Effort> {
  const crowd: Http2Wire[] = [];
  for (let i = 0; i < connections; i++) {
    const http2 = await open();
    for (let n = 0; n < 100; n++) await askOnce(http2);
    await http2.flushed();
    crowd.push(http2);
  }
  const left = crowd.reduce((sum, http2) => sum + http2.openStreams(), 0);
  return { requests: connections * 100, connections, outcome: `${left} left open` };
}

/** Sends requests on 20 connections. The stream windows stay closed, so the server can send no response body. */
export function unread(target: Target, askOnce: (http2: Http2Wire) => Promise<unknown>): Promise<Effort> {
  return crowd(20, () => target.http2({ window: 0, reads: false }), askOnce);
}
