import type { DescMethod } from "@bufbuild/protobuf";
import { Code, type ConnectError, type ContextValues } from "@connectrpc/connect";
import type { Authenticator } from "../auth/authenticator.ts";
import { kPrincipal } from "./context.ts";
import { callError } from "./errors.ts";
import { authenticate } from "./interceptors.ts";
import { type Observers, observeFailure, requestIdOf } from "./observe.ts";

/** What admission is made of. */
export interface AdmissionParts {
  readonly authenticator: Authenticator;
  /** Whether a service may be called without an API token. */
  readonly isOpen: (service: string) => boolean;
  /** Bounds the calls that are under way, those of open services and streams apart. */
  readonly limit: { tryEnter(): boolean; readonly leave: () => void };
  readonly observers: Observers;
}

/** A call as its header tells of it. */
interface CallHead {
  readonly method: DescMethod;
  readonly header: Headers;
  readonly contextValues: ContextValues;
}

type Leave = (() => void) | undefined;

/** When a caller that was refused may try again, in seconds: what was let in is answered well within it. */
const RETRY_AFTER_SECONDS = 1;

/**
 * Decides by a call's header whether its body is read: who has no API token costs no more than a look at it, and what
 * is more than the process can do in time is refused before it costs anything. Refusals are counted and logged as the
 * calls that they were to be.
 */
export function admission(parts: AdmissionParts): (head: CallHead) => Leave | Promise<Leave> {
  const { authenticator, isOpen, limit, observers } = parts;
  const refusal = ({ method, contextValues, header }: CallHead, reason: unknown, started: number): ConnectError =>
    observeFailure(observers, { method, contextValues, requestId: requestIdOf(header), started }, reason);
  return (head) => {
    const { method, header, contextValues } = head;
    if (isOpen(method.parent.typeName)) return undefined;
    const started = performance.now();
    const leave = method.methodKind === "unary" ? limit.leave : undefined;
    if (leave && !limit.tryEnter()) throw refusal(head, overloaded(), started);
    const refuse = (reason: unknown): never => {
      leave?.();
      throw refusal(head, reason, started);
    };
    try {
      const found = authenticate(authenticator, header);
      if (found instanceof Promise) {
        return found.then((principal) => {
          contextValues.set(kPrincipal, principal);
          return leave;
        }, refuse);
      }
      contextValues.set(kPrincipal, found);
      return leave;
    } catch (reason) {
      return refuse(reason);
    }
  };
}

function overloaded(): ConnectError {
  const message = "the server has as many calls under way as it can answer in time; try again later";
  const error = callError(Code.ResourceExhausted, message, { reason: "OVERLOADED" });
  error.metadata.set("retry-after", String(RETRY_AFTER_SECONDS));
  return error;
}
