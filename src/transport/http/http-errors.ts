import type { EventEmitter } from "node:events";
import { type IncomingMessage, type ServerResponse, STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import type { HeaderRecord } from "../protocol/record-headers.ts";
import { bodyBytes, type WireResponse } from "../wire.ts";
import { endHttp1 } from "./drain.ts";
import { Holdings } from "./holdings.ts";
import { writeHttp1 } from "./node-io.ts";

/**
 * Makes the answer to a request that is refused before anything serves it: 400
 * for what is no HTTP/1.1, 408, 417 or 431.
 *
 * @param headers those of the request, as far as they are known
 */
export type OnHttpError = (status: number, headers: HeaderRecord) => WireResponse;

/** node:http leaves the response that is under way on the socket. */
type Http1Socket = Socket & { readonly _httpMessage?: ServerResponse | null };

/** Answers the requests that node:http refuses itself, which it would answer with a status alone. */
export function answerHttp1Errors(server: EventEmitter, onHttpError: OnHttpError): void {
  const answered = new WeakSet<Socket>();
  server.on("clientError", (error: NodeJS.ErrnoException, socket: Http1Socket) => {
    // What comes after a failure fails as well.
    if (answered.has(socket)) return;
    if (!socket.writable || socket._httpMessage?.headersSent) {
      socket.destroy();
      return;
    }
    answered.add(socket);
    // The parser would fail again with all that still comes.
    endHttp1(socket, bytesOf(onHttpError(statusOf(error), {})));
  });
  server.on("checkExpectation", (req: IncomingMessage, res: ServerResponse) =>
    refuseHttp1(req, res, { status: 417, onHttpError }),
  );
}

const refusals = new Holdings({ timeoutMs: 30_000, maxBytes: 2 ** 24, maxConnectionBytes: 2 ** 20, ownBytes: 2 ** 14 });

/** Answers an HTTP/1.1 request with an error, without waiting for its body, and ends the connection. */
export function refuseHttp1(
  req: IncomingMessage,
  res: ServerResponse,
  { status, onHttpError }: { readonly status: number; readonly onHttpError: OnHttpError },
): void {
  req.on("error", () => {});
  res.on("error", () => {});
  const response = onHttpError(status, req.headers as HeaderRecord);
  writeHttp1(req, res, { ...response, headers: { ...response.headers, connection: "close" } }, { answers: refusals });
}

function statusOf({ code }: NodeJS.ErrnoException): number {
  if (code === "HPE_HEADER_OVERFLOW") return 431;
  return code === "ERR_HTTP_REQUEST_TIMEOUT" ? 408 : 400;
}

function bytesOf({ status, headers, body }: WireResponse): Uint8Array {
  const fields = Object.entries({ ...headers, date: new Date().toUTCString(), connection: "close" })
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}: ${String(value)}\r\n`);
  const head = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}\r\n${fields.join("")}\r\n`;
  return Buffer.concat([Buffer.from(head, "latin1"), bodyBytes(body)]);
}
