import type { EventEmitter } from "node:events";
import { type ServerResponse, STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import { bodyBytes, type HttpResponse } from "../exchange.ts";
import { HEADER_TOO_LARGE, REQUEST_TIMEOUT } from "../limits.ts";
import type { Refusal } from "../protocol/refusals.ts";
import { endHttp1 } from "./drain.ts";
import { closing } from "./node-exchange.ts";
import type { PortHandlers } from "./port.ts";

/** node:http keeps the current response on the socket. */
type Http1Socket = Socket & { readonly _httpMessage?: ServerResponse | null };

/** Answers requests that node:http itself refuses, in place of its bare status. */
export function answerHttp1Errors(
  server: EventEmitter,
  { refuse, onError }: Pick<PortHandlers, "refuse" | "onError">,
): void {
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
      endHttp1(socket, bytesOf(closing(refuse(refusalOf(error), {}))));
    } catch (failure) {
      socket.destroy();
      onError?.(failure);
    }
  });
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
