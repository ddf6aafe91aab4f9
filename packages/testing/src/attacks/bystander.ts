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

/** A client that makes valid calls while another client attacks the server. */
export class Bystander {
  readonly server: SubjectServer;
  readonly #agent: PlainAgent;
  #session: ClientHttp2Session | undefined;

  constructor(server: SubjectServer) {
    this.server = server;
    const options = { keepAlive: true, maxSockets: 1, rejectUnauthorized: false };
    this.#agent = server.url.startsWith("https:") ? new TlsAgent(options) : new PlainAgent(options);
  }

  /** Makes one call over HTTP/1.1 and one call over HTTP/2. @throws if a response is late, or is not 200 */
  async call(): Promise<void> {
    await Promise.all([this.#http1(), this.#http2()]);
  }

  close(): void {
    this.#agent.destroy();
    this.#session?.destroy();
  }

  async #http1(): Promise<void> {
    const { url, calls } = this.server;
    const { target, ...call } = calls.http1;
    const { status } = await inTime(http1(url, target, { ...call, agent: this.#agent }), "HTTP/1.1");
    if (status !== 200) throw new Error(`HTTP/1.1 response: ${status}`);
  }

  async #http2(): Promise<void> {
    const { url, calls } = this.server;
    if (!this.#session || this.#session.closed || this.#session.destroyed) this.#session = openHttp2(url);
    const { target, ...call } = calls.http2;
    const { status } = await inTime(http2On(this.#session, target, call), "HTTP/2");
    if (status !== 200) throw new Error(`HTTP/2 response: ${status}`);
  }
}

function inTime(answer: Promise<HttpAnswer>, protocol: string): Promise<HttpAnswer> {
  const late = pause(PATIENCE_MS).then(() => Promise.reject(new Error(`no response in time over ${protocol}`)));
  return Promise.race([answer, late]);
}
