import type { EventEmitter } from "node:events";
import { type IncomingMessage, type ServerResponse, STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import { bodyBytes, type HeaderRecord, type HttpResponse } from "../exchange.ts";
import type { Refusal } from "../protocol/refusals.ts";
import { ignore } from "./disconnected.ts";
import { endHttp1 } from "./drain.ts";
import { HEADER_TOO_LARGE, REQUEST_TIMEOUT } from "./limits.ts";
import { MemoryBudget } from "./memory-budget.ts";
import { closing, failHttp1, writeHttp1 } from "./node-io.ts";
import type { PortHandlers } from "./port.ts";

/** node:http keeps the current response on the socket. */
type Http1Socket = Socket & { readonly _httpMessage?: ServerResponse | null };

/** What makes refusals, and what becomes of those that cannot be made. */
type RefusalHandlers = Pick<PortHandlers, "refuse" | "onError">;

/** Answers requests that node:http itself refuses, in place of its bare status. */
export function answerHttp1Errors(server: EventEmitter, handlers: RefusalHandlers): void {
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
    try {
      endHttp1(socket, bytesOf(closing(handlers.refuse(refusalOf(error), {}))));
    } catch (failure) {
      socket.destroy();
      handlers.onError?.(failure);
    }
  });
  server.on("checkExpectation", (req: IncomingMessage, res: ServerResponse) =>
    refuseHttp1(req, res, { kind: "expectation-failed" }, handlers),
  );
}

const refusals = new MemoryBudget({
  timeoutMs: 30_000,
  maxBytes: 2 ** 24,
  maxConnectionBytes: 2 ** 20,
  overheadBytes: 2 ** 14,
});

/** Answers an HTTP/1.1 request with an error, without waiting for its body, and closes the connection. */
export function refuseHttp1(
  req: IncomingMessage,
  res: ServerResponse,
  refusal: Refusal,
  { refuse, onError }: RefusalHandlers,
): void {
  req.on("error", ignore);
  res.on("error", ignore);
  try {
    writeHttp1(req, res, closing(refuse(refusal, req.headers as HeaderRecord)), { answers: refusals });
  } catch (error) {
    failHttp1(res, error, { onError });
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
