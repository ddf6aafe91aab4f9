import type { EventEmitter } from "node:events";
import { type IncomingMessage, type ServerResponse, STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import { bodyBytes, type HeaderRecord, type HttpResponse } from "../exchange.ts";
import type { Refusal, Refuse } from "../protocol/refusals.ts";
import { ignore } from "./disconnected.ts";
import { endHttp1 } from "./drain.ts";
import { HEADER_TOO_LARGE, REQUEST_TIMEOUT } from "./limits.ts";
import { MemoryBudget } from "./memory-budget.ts";
import { closing, writeHttp1 } from "./node-io.ts";

/** node:http keeps the current response on the socket. */
type Http1Socket = Socket & { readonly _httpMessage?: ServerResponse | null };

/** Answers requests that node:http itself refuses, in place of its bare status. */
export function answerHttp1Errors(server: EventEmitter, refuse: Refuse): void {
  const answered = new WeakSet<Socket>();
  server.on("clientError", (error: NodeJS.ErrnoException, socket: Http1Socket) => {
    // After a parse error, the rest of the data fails to parse as well.
    if (answered.has(socket)) return;
    if (!socket.writable || socket._httpMessage?.headersSent) {
      socket.destroy();
      return;
    }
    answered.add(socket);
    // Further data would only make the parser fail again.
    endHttp1(socket, bytesOf(closing(refuse(refusalOf(error), {}))));
  });
  server.on("checkExpectation", (req: IncomingMessage, res: ServerResponse) =>
    refuseHttp1(req, res, refuse({ kind: "expectation-failed" }, req.headers as HeaderRecord)),
  );
}

const refusals = new MemoryBudget({
  timeoutMs: 30_000,
  maxBytes: 2 ** 24,
  maxConnectionBytes: 2 ** 20,
  overheadBytes: 2 ** 14,
});

/** Answers an HTTP/1.1 request with an error, without waiting for its body, and closes the connection. */
export function refuseHttp1(req: IncomingMessage, res: ServerResponse, response: HttpResponse): void {
  req.on("error", ignore);
  res.on("error", ignore);
  writeHttp1(req, res, closing(response), { answers: refusals });
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
