import { type ServerResponse, STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import { bodyBytes, type HttpResponse } from "../exchange.ts";
import { HEADER_TOO_LARGE, REQUEST_TIMEOUT } from "../limits.ts";
import type { Refusal, Refuse } from "../protocol/refusals.ts";
import { endHttp1 } from "./drain.ts";

/**
 * How many pipelined requests may wait behind the current one. Clients that pipeline at all send a few. Without a limit
 * node:http would accept as many as fit in a packet, which can be thousands.
 */
const MAX_WAITING = 32;

/** node:http keeps the parser on the socket. The parser passes every request to this callback. */
interface ParsedSocket extends Socket {
  readonly parser?: { onIncoming: (() => number) | null } | null;
}

const connections = new WeakMap<Socket, Http1Connection>();

/** An HTTP/1.1 connection: which requests it serves, and what becomes of those that node:http itself refuses. */
export class Http1Connection {
  readonly #socket: ParsedSocket;
  /** The response to the latest request, until it is written and the request is complete. */
  #latest: ServerResponse | undefined;
  /** How many responses are queued behind another. */
  #waiting = 0;
  /** Whether it serves no further requests. */
  #isOver = false;
  /** Whether the parser has failed, and would fail again. */
  #isBroken = false;

  private constructor(socket: Socket) {
    this.#socket = socket;
  }

  static of(socket: Socket): Http1Connection {
    let connection = connections.get(socket);
    if (connection === undefined) {
      connection = new Http1Connection(socket);
      connections.set(socket, connection);
    }
    return connection;
  }

  /** Whether a request is being served, or its response has not been sent. */
  get isBusy(): boolean {
    return this.#latest?.writableFinished === false || this.#socket.writableLength > 0;
  }

  /**
   * Whether to serve a request. Some are the last that their connection serves: a pipelined one that reaches the limit,
   * and one that asks for another protocol, because the parser then drops the rest of the packet. Later ones are ignored,
   * and the client has to send them again on a new connection (RFC 9112, 9.3.2).
   */
  takes(res: ServerResponse): boolean {
    if (this.#isOver) return false;
    this.#latest = res;
    if (res.req.headers.upgrade !== undefined) this.closeAfter(res);
    // Only a response that is queued behind another has no socket yet.
    if (res.socket !== null) return true;
    this.#waiting++;
    res.once("close", () => {
      this.#waiting--;
    });
    this.keeps(res);
    if (this.#waiting === MAX_WAITING) this.closeAfter(res);
    return true;
  }

  /** Call when a whole response is written. */
  writes(res: ServerResponse): void {
    // One that is queued comes before whatever is sent later, until it is sent itself.
    if (res.socket !== null && res.req.complete) this.#done(res);
  }

  /** Call when a response is written over time. */
  keeps(res: ServerResponse): void {
    res.once("close", () => this.#done(res));
  }

  /** Makes a response the last, after which the connection closes. */
  closeAfter(res: ServerResponse): void {
    const socket = this.#socket;
    this.#isOver = true;
    // The parser still parses the rest of the packet; its requests must not be kept.
    if (socket.parser) socket.parser.onIncoming = () => 0;
    if (res.writableFinished) endHttp1(socket);
    else if (res.headersSent) res.once("finish", () => endHttp1(socket));
    else {
      res.setHeader("connection", "close");
      // node:http would close the socket at once, and what is still arriving would lose the response on its way.
      socket.destroySoon = () => endHttp1(socket);
    }
  }

  /**
   * Answers what node:http refuses, in place of its bare status: behind the responses to what came before, which it would
   * otherwise overtake.
   */
  fail(error: NodeJS.ErrnoException, refuse: Refuse): void {
    const [socket, res] = [this.#socket, this.#latest];
    if (!socket.writable) {
      socket.destroy();
      return;
    }
    // After a parse error, the rest of the data fails to parse as well.
    if (this.#isBroken) return;
    this.#isBroken = true;
    if (res && (res.req.complete || res.writableEnded)) {
      // Clients send again what gets no answer before the connection closes.
      this.closeAfter(res);
    } else if (res?.headersSent) {
      socket.destroy();
    } else if (!res && (this.#isOver || error.code === "HPE_CLOSED_CONNECTION")) {
      // The last response is written, though the socket may not have ended yet: what comes behind it gets no answer.
      endHttp1(socket);
    } else {
      const { status, headers, body } = refuse(refusalOf(error), {});
      if (!res) {
        endHttp1(socket, bytesOf({ status, headers: { ...headers, connection: "close" }, body }));
        return;
      }
      this.closeAfter(res);
      res.writeHead(status, headers);
      res.end(bodyBytes(body));
    }
  }

  #done(res: ServerResponse): void {
    if (this.#latest === res) this.#latest = undefined;
  }
}

function refusalOf({ code }: NodeJS.ErrnoException): Refusal {
  if (code === "HPE_HEADER_OVERFLOW") return HEADER_TOO_LARGE;
  return code === "ERR_HTTP_REQUEST_TIMEOUT" ? REQUEST_TIMEOUT : { kind: "malformed-http" };
}

function bytesOf({ status, headers, body }: HttpResponse): Uint8Array {
  const fields = Object.entries({ ...headers, date: new Date().toUTCString() })
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}: ${String(value)}\r\n`);
  const head = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}\r\n${fields.join("")}\r\n`;
  return Buffer.concat([Buffer.from(head, "latin1"), bodyBytes(body)]);
}
