import type { DescMethod } from "@bufbuild/protobuf";
import type { ConnectError, ContextValues } from "@connectrpc/connect";
import type { Compression } from "@connectrpc/connect/protocol";
import { errorResponse } from "./rest/errors.ts";
import { UserRoute, verbNotAllowed } from "./rest/user-route.ts";
import { VERBS, type Verb } from "./rest/verbs.ts";
import { kProtocol } from "./rpc/context.ts";
import { requireStrictJson } from "./transport/codec/strict-json.ts";
import { type Admit, type Admitted, admitted } from "./transport/protocol/admission.ts";
import { LeanContextValues } from "./transport/protocol/lean-context-values.ts";
import type { HeaderRecord } from "./transport/protocol/record-headers.ts";
import { answerNow } from "./transport/protocol/refusals.ts";
import type { UnaryTransport } from "./transport/protocol/unary.ts";
import { asConnectError, type Route } from "./transport/wire.ts";

/** What is known of a request that is refused before it is a call. */
export interface RefusedCall {
  readonly method?: DescMethod | undefined;
  /** Undefined for a request that is of no protocol of calls. */
  readonly contextValues?: ContextValues | undefined;
  /** In milliseconds of Unix time, where it is known. */
  readonly arrived?: number | undefined;
}

/** What the REST shim's calls are made with. */
export interface RestCallParts {
  readonly admit: Admit;
  readonly unary: UnaryTransport;
  /** Counts and logs a request that is refused, and says what its caller is told. */
  readonly refuse: (failure: ConnectError, headers: HeaderRecord, of: RefusedCall) => ConnectError;
  /** Encodings of bodies, most wanted first. */
  readonly compressions: readonly Compression[];
}

/** The REST shim as what serves requests: each verb is one RPC, and is let in as one. */
export function restCalls({ admit, unary, refuse, compressions }: RestCallParts) {
  const userRoute = new UserRoute({
    onRefused: (error, { headers, arrived }, method) =>
      refuse(error, headers, { method, contextValues: restContext(), arrived }),
    requireStrictJson,
    compressions,
  });

  const letIn = (verb: Verb, call: Admitted): Route => ({
    isTooLong: (_head, total) => userRoute.isTooLong(total),
    serve: (request) => {
      try {
        call.begin();
      } catch (reason) {
        return Promise.resolve(errorResponse(asConnectError(reason), false));
      }
      return userRoute.serve(verb, request, (method, message) =>
        unary.call(method, message, {
          protocolName: "rest",
          source: request,
          header: call.header,
          contextValues: call.contextValues,
        }),
      );
    },
    end: () => call.end(),
  });

  const refused = (reason: unknown) => answerNow(errorResponse(asConnectError(reason), false));

  return (httpMethod: string, headers: HeaderRecord): Route | Promise<Route> => {
    const verb = VERBS.get(httpMethod);
    if (!verb) return refused(refuse(verbNotAllowed(httpMethod), headers, { contextValues: restContext() }));
    try {
      const found = admitted(verb.method, "rest", headers, { admit, contextValues: restContext });
      return found instanceof Promise ? found.then((call) => letIn(verb, call), refused) : letIn(verb, found);
    } catch (reason) {
      return refused(reason);
    }
  };
}

function restContext(): ContextValues {
  return new LeanContextValues().set(kProtocol, "rest");
}
