import type { DescMethod } from "@bufbuild/protobuf";
import { Code, type ConnectError, type ContextValues } from "@connectrpc/connect";
import type { Authenticator, Principal } from "../auth/authenticator.ts";
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
  readonly limit: { readonly isFull: boolean; tryEnter(): boolean; leave(): void };
  readonly observers: Observers;
}

/** A call as its header tells of it. */
interface CallHead {
  readonly method: DescMethod;
  readonly header: Headers;
  readonly contextValues: ContextValues;
}

/** When a caller that was refused may try again, in seconds: what was let in is answered well within it. */
const RETRY_AFTER_SECONDS = 1;

/**
 * Decides by a call's header whether its body is read: who has no API token costs no more than a look at it, and what
 * is more than the process can do in time is refused before it costs anything. Refusals are counted and logged as the
 * calls that they were to be.
 */
export function admission(parts: AdmissionParts): (head: CallHead) => Turn | undefined | Promise<Turn | undefined> {
  const { authenticator, isOpen, limit } = parts;
  return (head) => {
    const { method, header, contextValues } = head;
    if (isOpen(method.parent.typeName)) return undefined;
    const turn = new Turn(parts, head);
    const isLimited = method.methodKind === "unary";
    if (isLimited && limit.isFull) throw turn.refusal(overloaded());
    const admit = (principal: Principal) => {
      contextValues.set(kPrincipal, principal);
      return isLimited ? turn : undefined;
    };
    const refuse = (reason: unknown): never => {
      throw turn.refusal(reason);
    };
    try {
      const found = authenticate(authenticator, header);
      return found instanceof Promise ? found.then(admit, refuse) : admit(found);
    } catch (reason) {
      return refuse(reason);
    }
  };
}

/** The place of a call among those that are under way. */
class Turn {
  readonly #parts: AdmissionParts;
  readonly #head: CallHead;
  readonly #started = performance.now();

  constructor(parts: AdmissionParts, head: CallHead) {
    this.#parts = parts;
    this.#head = head;
  }

  /** @throws ConnectError when others took the last place while the body came */
  begin(): void {
    if (!this.#parts.limit.tryEnter()) throw this.refusal(overloaded());
  }

  end(): void {
    this.#parts.limit.leave();
  }

  /** What the caller of a call that is not made is told. */
  refusal(reason: unknown): ConnectError {
    const { method, contextValues, header } = this.#head;
    const call = { method, contextValues, requestId: requestIdOf(header), started: this.#started };
    return observeFailure(this.#parts.observers, call, reason);
  }
}

/** Made without a stack, which would cost a fifth of what the refusal does, just when there is no time. */
function overloaded(): ConnectError {
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 0;
  try {
    const message = "the server has as many calls under way as it can answer in time; try again later";
    const error = callError(Code.ResourceExhausted, message, { reason: "OVERLOADED" });
    error.metadata.set("retry-after", String(RETRY_AFTER_SECONDS));
    return error;
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
}
