import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import { buffer } from "node:stream/consumers";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { codeToHttpStatus, errorToJsonBytes } from "@connectrpc/connect/protocol-connect";
import { newListener } from "@user-group-service/testing/opened";
import { ErrorInfoSchema, RetryInfoSchema } from "../../../../gen/google/rpc/error_details_pb.ts";

/** A call from `ugs` to the service. */
export interface GateCall {
  readonly rpc: string;
  /** The request body, if it was JSON. */
  readonly message: { readonly [field: string]: unknown };
  readonly response: ServerResponse;
}

/** A proxy between `ugs` and the service that decides which calls pass. */
export interface Gate {
  readonly url: string;
  /** Every call, in order. */
  readonly calls: GateCall[];
  /** Called for each call before it passes. Returns true if it has answered the call. */
  before: (call: GateCall) => unknown;
}

/** Opens a gate in front of a service. */
export async function newGate({ url }: { readonly url: string }): Promise<Gate> {
  const calls: GateCall[] = [];
  const gate = { calls, before: (_: GateCall): unknown => false };
  const server = createServer(async (incoming, response) => {
    const body = await buffer(incoming).catch(() => undefined);
    // The caller may disconnect before the whole call has arrived.
    if (!body) return;
    const isJson = incoming.headers["content-type"] === "application/json";
    const message = isJson ? (JSON.parse(body.toString()) as GateCall["message"]) : {};
    const call = { rpc: incoming.url?.split("/").at(-1) ?? "", message, response };
    calls.push(call);
    if ((await gate.before(call)) !== true) pass(`${url}${incoming.url}`, incoming, { body, response });
  });
  return Object.assign(gate, { url: await newListener(server) });
}

function pass(
  target: string,
  { method, headers }: IncomingMessage,
  { body, response }: { readonly body: Buffer; readonly response: ServerResponse },
): void {
  const passing = request(target, { method: method ?? "POST", headers }, (answer) => {
    response.writeHead(answer.statusCode ?? 502, answer.headers);
    answer.pipe(response);
  });
  // The caller may have disconnected.
  passing.on("error", () => response.destroy());
  passing.end(body);
}

/**
 * Answers a call with an error of the service.
 *
 * @param retryMs delay before a retry, in milliseconds
 */
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

/** The refusal of a rate-limited call. */
export function refuseRate(call: GateCall, reason: "RATE_LIMITED" | "OVERLOADED", retryMs: number): true {
  return refuse(call, { code: Code.ResourceExhausted, reason, retryMs });
}
