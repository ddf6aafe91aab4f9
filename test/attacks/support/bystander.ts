import { type IncomingMessage, Agent as PlainAgent, request as plainRequest } from "node:http";
import { type ClientHttp2Session, connect as connectHttp2 } from "node:http2";
import { Agent as TlsAgent, request as tlsRequest } from "node:https";
import type { TestServer } from "../../support/server.ts";
import { pause } from "../../support/wait.ts";

/** How long a call may take while the server is attacked, in milliseconds; a sound server needs a thousandth. */
const PATIENCE_MS = 15_000;
const PAUSE_MS = 100;
const PATH = "/usergroup.v1.UserGroupService/GetUserGroup";

/** An ordinary caller with connections of its own, over HTTP/1.1 and HTTP/2. */
export class Bystander {
  readonly #server: TestServer;
  readonly #agent: PlainAgent;
  #session: ClientHttp2Session | undefined;
  #running: Promise<void> | undefined;
  #isStopping = false;
  /** Calls that were answered since `start`. */
  answered = 0;
  /** Why calls failed since `start`. */
  readonly failures: string[] = [];

  constructor(server: TestServer) {
    this.#server = server;
    const options = { keepAlive: true, maxSockets: 1 };
    this.#agent = this.#isTls ? new TlsAgent(options) : new PlainAgent(options);
  }

  get #isTls(): boolean {
    return this.#server.url.startsWith("https:");
  }

  /** One call over HTTP/1.1 and one over HTTP/2. @throws when one is not answered as it should be */
  async call(): Promise<void> {
    await Promise.all([this.#rest(), this.#connect()]);
  }

  /** Calls again and again until `stop`. */
  start(): void {
    this.#isStopping = false;
    this.#running = this.#run();
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    await this.#running;
  }

  close(): void {
    this.#agent.destroy();
    this.#session?.destroy();
  }

  async #run(): Promise<void> {
    while (!this.#isStopping) {
      try {
        await this.call();
        this.answered++;
      } catch (error) {
        if (this.failures.length < 5) this.failures.push(String(error));
      }
      await pause(PAUSE_MS);
    }
  }

  async #rest(): Promise<void> {
    const headers = { authorization: `Token ${this.#server.tokens.customer}` };
    const target = "/api/user?user_group_id=bystander";
    const options = { agent: this.#agent, headers, rejectUnauthorized: false, timeout: PATIENCE_MS };
    const status = await new Promise<number | undefined>((resolve, reject) => {
      const send = this.#isTls ? tlsRequest : plainRequest;
      const req = send(`${this.#server.url}${target}`, options, (res: IncomingMessage) => {
        res.resume();
        res.on("end", () => resolve(res.statusCode));
        res.on("error", reject);
      });
      req.on("timeout", () => req.destroy(new Error("no answer over HTTP/1.1")));
      req.on("error", reject);
      req.end();
    });
    if (status !== 200) throw new Error(`HTTP/1.1 answered ${status}`);
  }

  async #connect(): Promise<void> {
    if (!this.#session || this.#session.closed || this.#session.destroyed) {
      this.#session = connectHttp2(this.#server.url, { rejectUnauthorized: false });
      this.#session.on("error", () => {});
    }
    const session = this.#session;
    const status = await new Promise<number>((resolve, reject) => {
      const stream = session.request({
        ":method": "POST",
        ":path": PATH,
        "content-type": "application/json",
        authorization: `Token ${this.#server.tokens.customer}`,
      });
      stream.setTimeout(PATIENCE_MS, () => reject(new Error("no answer over HTTP/2")));
      let answer = 0;
      stream.on("response", (headers) => {
        answer = headers[":status"] ?? 0;
      });
      stream.on("error", reject);
      stream.on("close", () => resolve(answer));
      stream.resume();
      stream.end('{"userGroupId":"bystander"}');
    });
    if (status !== 200) throw new Error(`HTTP/2 answered ${status}`);
  }
}
