import type { Message } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import type { Serialization } from "../codec/serialization.ts";
import type { AdmittedCall } from "./admission.ts";
import type { UnaryCall } from "./call.ts";
import { asConnectError, RequestRefused, refusalOf } from "./refusals.ts";

/**
 * Decodes a request's message and makes the call. Rejects when either fails.
 *
 * @param decode decodes the message; throws or rejects when the message is invalid
 */
export function invokeCall(
  call: UnaryCall,
  decode: () => Message | Promise<Message>,
  admitted: AdmittedCall,
): Promise<Message> {
  const refuse = (reason: unknown): never => {
    throw admitted.refuse(refusalOf(reason)).error;
  };
  let message: Message | Promise<Message>;
  try {
    message = decode();
  } catch (reason) {
    return new Promise(() => refuse(reason));
  }
  // Most messages are decoded synchronously, without a promise.
  return message instanceof Promise ? message.catch(refuse).then((input) => call.invoke(input)) : call.invoke(message);
}

/** Decodes the message of a request. @throws RequestRefused */
export function parseMessage({ isBinary, parse }: Serialization, bytes: Uint8Array, limit: number): Message {
  try {
    return parse(bytes);
  } catch (reason) {
    const error = asConnectError(reason);
    if (error.code === Code.ResourceExhausted) throw new RequestRefused({ kind: "message-too-large", limit, error });
    throw new RequestRefused({ kind: "malformed-message", isBinary, error });
  }
}
