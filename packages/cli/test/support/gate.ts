import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import { buffer } from "node:stream/consumers";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { codeToHttpStatus, errorToJsonBytes } from "@connectrpc/connect/protocol-connect";
import { newListener } from "@user-group-service/testing/opened";
import { ErrorInfoSchema, RetryInfoSchema } from "../../../../gen/google/rpc/error_details_pb.ts";

export interface GateCall {
  readonly rpc: string;
  /** The parsed request body. If the body is not JSON, this is an empty object. */
  readonly message: { readonly [field: string]: unknown };
  readonly response: ServerResponse;
}

/** A proxy between `ugs` and the service. A test decides which calls reach the service. */
export interface Gate {
  readonly url: string;
  /** All calls, in the order of their arrival. */
  readonly calls: GateCall[];
  /**
   * Runs before the gate forwards a call. If `before` answers the call itself, it returns true, and the gate does not
   * forward the call.
   */
  before: (call: GateCall) => unknown;
}

export async function newGate({ url }: { readonly url: string }): Promise<Gate> {
  const calls: GateCall[] = [];
  const gate = { calls, before: (_: GateCall): unknown => false };
  const server = createServer(async (incoming, response) => {
    const body = await buffer(incoming).catch(() => undefined);
    // The client may disconnect before the whole request has arrived.
    if (!body) return;
    const isJson = incoming.headers["content-type"] === "application/json";
    const message = isJson ? (JSON.parse(body.toString()) as GateCall["message"]) : {};
    const call = { rpc: incoming.url?.split("/").at(-1) ?? "", message, response };
    calls.push(call);
    if ((await gate.before(call)) !== true) forward(`${url}${incoming.url}`, incoming, { body, response });
  });
  return Object.assign(gate, { url: await newListener(server) });
}

function forward(
  target: string,
  { method, headers }: IncomingMessage,
  { body, response }: { readonly body: Buffer; readonly response: ServerResponse },
): void {
  const forwarded = request(target, { method: method ?? "POST", headers }, (answer) => {
    response.writeHead(answer.statusCode ?? 502, answer.headers);
    answer.pipe(response);
  });
  // The client may have disconnected.
  forwarded.on("error", () => response.destroy());
  forwarded.end(body);
}

/** Answers a call with an error. @param retryMs the delay before a retry, in milliseconds */
export function refuse(
  { response }: GateCall,
  { code, reason, retryMs }: { readonly code: Code; readonly reason: string; readonly retryMs?: number },
): true {
  const error = new ConnectError("what went wrong", code);
  error.details.push({ desc: ErrorInfoSchema, value: { reason, domain: "user-group-service" } });
  if (retryMs !== undefined) {
    const value: MessageInitShape<typeof RetryInfoSchema> = { retryDelay: { nanos: retryMs * 1e6 } };
    error.details.push({ desc: RetryInfoSchema, value });
  }
  response.writeHead(codeToHttpStatus(code), { "content-type": "application/json" });
  response.end(errorToJsonBytes(error, undefined));
  return true;
}

export function refuseRate(call: GateCall, reason: "RATE_LIMITED" | "OVERLOADED", retryMs: number): true {
  return refuse(call, { code: Code.ResourceExhausted, reason, retryMs });
}
