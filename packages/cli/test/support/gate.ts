import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import { buffer } from "node:stream/consumers";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { codeToHttpStatus, errorToJsonBytes } from "@connectrpc/connect/protocol-connect";
import { newListener } from "@user-group-service/testing/opened";
import { ErrorInfoSchema, RetryInfoSchema } from "../../../../gen/google/rpc/error_details_pb.ts";

/** A call on its way. */
export interface GateCall {
  readonly rpc: string;
  /** What was sent, where it was JSON. */
  readonly message: { readonly [field: string]: unknown };
  readonly response: ServerResponse;
}

/** Stands between `ugs` and the service, and decides what passes. */
export interface Gate {
  readonly url: string;
  /** Every call that came, in their order. */
  readonly calls: GateCall[];
  /** Is told of each call before it passes; true: it is answered already. */
  before: (call: GateCall) => unknown;
}

/** Opens a gate to a service. */
export async function newGate({ url }: { readonly url: string }): Promise<Gate> {
  const calls: GateCall[] = [];
  const gate = { calls, before: (_: GateCall): unknown => false };
  const server = createServer(async (incoming, response) => {
    const body = await buffer(incoming).catch(() => undefined);
    // Whoever calls may be gone before all of the call is here.
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
  // Whoever called may be gone already.
  passing.on("error", () => response.destroy());
  passing.end(body);
}

/** Answers a call as the service does when it fails. @param retryMs after which the call may be made again */
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

/** A refusal because there were too many calls. */
export function refuseRate(call: GateCall, reason: "RATE_LIMITED" | "OVERLOADED", retryMs: number): true {
  return refuse(call, { code: Code.ResourceExhausted, reason, retryMs });
}
