import { Agent as PlainAgent } from "node:http";
import type { ClientHttp2Session } from "node:http2";
import { Agent as TlsAgent } from "node:https";
import { type HttpAnswer, http1, http2On, openHttp2 } from "../http.ts";
import { pause } from "../wait.ts";
import type { SubjectServer } from "./subject.ts";

/**
 * Timeout of a call during an attack, in milliseconds. If no attack runs, a call takes about a thousandth of this time.
 */
const PATIENCE_MS = 15_000;

export type Bystander = ReturnType<typeof bystanderOf>;

/** Creates a client that makes valid calls while another client attacks the server. */
export function bystanderOf(server: SubjectServer) {
  const { url, calls } = server;
  const options = { keepAlive: true, maxSockets: 1, rejectUnauthorized: false };
  const agent = url.startsWith("https:") ? new TlsAgent(options) : new PlainAgent(options);
  let session: ClientHttp2Session | undefined;
  return {
    server,
    /** Makes one call over HTTP/1.1 and one call over HTTP/2. @throws if a response is late or its status is not 200 */
    async call(): Promise<void> {
      if (!session || session.closed || session.destroyed) session = openHttp2(url);
      await Promise.all([
        requireOk(http1(url, calls.http1.target, { ...calls.http1, agent }), "HTTP/1.1"),
        requireOk(http2On(session, calls.http2.target, calls.http2), "HTTP/2"),
      ]);
    },
    close(): void {
      agent.destroy();
      session?.destroy();
    },
  };
}

async function requireOk(answer: Promise<HttpAnswer>, protocol: string): Promise<void> {
  const late = pause(PATIENCE_MS).then(() => Promise.reject(new Error(`no response in time over ${protocol}`)));
  const { status } = await Promise.race([answer, late]);
  if (status !== 200) throw new Error(`${protocol} response: ${status}`);
}
