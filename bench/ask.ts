import { deepStrictEqual } from "node:assert";
import { http1, http2 } from "@user-group-service/testing/http";
import type { Answer, Call } from "./calls.ts";

/** Makes one call and parses the answer. @throws if the call failed */
export async function ask(url: string, call: Call, body = call.body): Promise<{ answer: Answer; bytes: number }> {
  const send = call.http === 2 ? http2 : http1;
  const request = { method: body ? "POST" : "GET", headers: call.headers, body };
  const { status, headers, trailers, body: bytes } = await send(url, call.path, request);
  const grpcStatus = trailers["grpc-status"] ?? headers["grpc-status"] ?? (call.http === 2 ? undefined : "0");
  if (status !== 200 || grpcStatus !== "0")
    throw new Error(`${call.title}: HTTP ${status}, grpc-status ${grpcStatus}: ${bytes}`);
  return { answer: call.read(bytes), bytes: bytes.byteLength };
}

/** @throws AssertionError if a field differs between the two answers and is not in `call.volatile` */
export function requireAlike(call: Call, answer: Answer, reference: Answer): void {
  deepStrictEqual(stable(call, answer), stable(call, reference));
}

function stable(call: Call, answer: Answer): Answer {
  const group = { ...(answer["userGroup"] as Answer | undefined) };
  for (const field of call.volatile) {
    if (!(field in group)) throw new Error(`${call.title}: the answer has no ${field}`);
    delete group[field];
  }
  return "userGroup" in answer ? { ...answer, userGroup: group } : answer;
}
