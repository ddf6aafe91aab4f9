import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { newListener } from "@user-group-service/testing/opened";
import { Webhook } from "standardwebhooks";

export interface ReceivedMessage {
  readonly id: string;
  readonly type: string;
  readonly data: { readonly [field: string]: unknown };
  readonly headers: { readonly [name: string]: string };
  readonly body: string;
}

/** An endpoint that receives messages of webhooks. */
export interface Receiver {
  url(path?: string): string;
  /** Returns the messages that have arrived at a path, in the order in which they arrived. */
  at(path?: string): readonly ReceivedMessage[];
  /** Returns the maximum number of requests to a path that were in progress at the same time. */
  concurrency(path?: string): number;
}

/** Responds to a request. The response may be late, or may never be sent. */
export type Answer = (message: ReceivedMessage, response: ServerResponse, path: string) => unknown;

export async function newReceiver(answer: Answer = (_, response) => response.writeHead(204).end()): Promise<Receiver> {
  const received = new Map<string, ReceivedMessage[]>();
  const [open, most] = [new Map<string, number>(), new Map<string, number>()];
  const server = createServer((request: IncomingMessage, response) => {
    const path = request.url ?? "/";
    const count = (open.get(path) ?? 0) + 1;
    open.set(path, count);
    most.set(path, Math.max(count, most.get(path) ?? 0));
    response.on("close", () => open.set(path, (open.get(path) ?? 0) - 1));
    let body = "";
    request.setEncoding("utf8").on("data", (text: string) => {
      body += text;
    });
    request.on("end", () => {
      const { type, data } = JSON.parse(body);
      const headers = request.headers as Record<string, string>;
      const message = { id: headers["webhook-id"] ?? "", type, data, headers, body };
      const messages = received.get(path) ?? [];
      received.set(path, messages);
      messages.push(message);
      answer(message, response, path);
    });
  });
  const base = await newListener(server);
  return {
    url: (path = "/") => base + path,
    at: (path = "/") => received.get(path) ?? [],
    concurrency: (path = "/") => most.get(path) ?? 0,
  };
}

/** Verifies a message with the library of Standard Webhooks. @throws if no signature matches the secret */
export function verify(secret: string, { body, headers }: ReceivedMessage): void {
  new Webhook(secret).verify(body, headers);
}

/**
 * Returns the event ids of messages, in the order of their first arrival. If several messages have the same event id,
 * the result contains the id only once.
 */
export function firstArrivals(messages: readonly ReceivedMessage[]): readonly string[] {
  return [...new Set(messages.map(({ data }) => String(data["event_id"])))];
}
