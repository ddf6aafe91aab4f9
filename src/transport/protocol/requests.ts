import type { Message } from "@bufbuild/protobuf";
import { Code, type ConnectError } from "@connectrpc/connect";
import type { Serialization } from "../codec/serialization.ts";
import type { HttpRequest } from "../exchange.ts";
import type { Admitted } from "./admission.ts";
import { type CallInit, UnaryCall } from "./call.ts";
import { asConnectError, RequestRefused, refusalOf } from "./refusals.ts";

/** What a protocol makes of a request's header. */
export type Opening = Pick<CallInit, "method" | "protocolName" | "timeoutMs" | "responseHeader" | "responseTrailer">;

/** Begins the call that a request is. */
export function openCall(request: HttpRequest, opening: Opening, admitted: Admitted): UnaryCall {
  return new UnaryCall({
    method: opening.method,
    protocolName: opening.protocolName,
    source: request,
    requestHeader: admitted.header,
    contextValues: admitted.contextValues,
    timeoutMs: opening.timeoutMs,
    responseHeader: opening.responseHeader,
    responseTrailer: opening.responseTrailer,
  });
}

/**
 * Makes the call that a request decodes to; rejects with what goes wrong, be it with the request or in the call.
 *
 * @param decode the request's message; throws or rejects with what is wrong with it
 */
export function makeCall(
  call: UnaryCall,
  decode: () => Message | Promise<Message>,
  admitted: Admitted,
): Promise<Message> {
  const refuse = (reason: unknown): never => {
    throw admitted.refuse(refusalOf(reason));
  };
  let message: Message | Promise<Message>;
  try {
    message = decode();
  } catch (reason) {
    return new Promise(() => refuse(reason));
  }
  // Most requests are decoded at once, and need no promise.
  return message instanceof Promise ? message.catch(refuse).then((input) => call.invoke(input)) : call.invoke(message);
}

/** Decodes the message of a request. @throws RequestRefused */
export function parseMessage({ isBinary, parse }: Serialization, bytes: Uint8Array, limit: number): Message {
  try {
    return parse(bytes);
  } catch (reason) {
    const error: ConnectError = asConnectError(reason);
    if (error.code === Code.ResourceExhausted) throw new RequestRefused({ kind: "message-too-large", limit, error });
    throw new RequestRefused({ kind: "malformed-message", isBinary, error });
  }
}
