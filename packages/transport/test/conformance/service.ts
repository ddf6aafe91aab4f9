import { setTimeout as delay } from "node:timers/promises";
import type { Message } from "@bufbuild/protobuf";
import { anyPack } from "@bufbuild/protobuf/wkt";
import { ConnectError, type ConnectRouter, type HandlerContext } from "@connectrpc/connect";
import type { ErrorDefinition, Header, Schemas, StreamDefinition, StreamRequest, UnaryRequest } from "./schemas.ts";

/**
 * Returns the suite's ConformanceService. Each method follows the definition in its request. The method Unimplemented
 * has no route.
 */
export function conformanceRoutes(schemas: Schemas): (router: ConnectRouter) => void {
  const service = new ConformanceService(schemas);
  return (router) => {
    router.service(schemas.service, {
      unary: (request: UnaryRequest, context: HandlerContext) => service.unary([request], context),
      idempotentUnary: (request: UnaryRequest, context: HandlerContext) => service.unary([request], context),
      clientStream: (requests: AsyncIterable<UnaryRequest>, context: HandlerContext) =>
        service.clientStream(requests, context),
      serverStream: (request: StreamRequest, context: HandlerContext) => service.serverStream(request, context),
      bidiStream: (requests: AsyncIterable<StreamRequest>, context: HandlerContext) =>
        service.bidiStream(requests, context),
    } as never);
  };
}

class ConformanceService {
  readonly #schemas: Schemas;

  constructor(schemas: Schemas) {
    this.#schemas = schemas;
  }

  /** Returns one response to all messages of a call. The first message defines the response. */
  async unary(requests: readonly UnaryRequest[], context: HandlerContext) {
    const definition = requests[0]?.responseDefinition;
    const requestInfo = this.#requestInfo(requests, context);
    if (!definition) return { payload: { requestInfo } };
    addHeaders(definition, context);
    await delay(definition.responseDelayMs);
    const { response } = definition;
    if (response.case === "error") throw this.#error(response.value, requestInfo);
    return { payload: { requestInfo, ...(response.case && { data: response.value }) } };
  }

  async clientStream(requests: AsyncIterable<UnaryRequest>, context: HandlerContext) {
    const received: UnaryRequest[] = [];
    for await (const request of requests) received.push(request);
    return this.unary(received, context);
  }

  async *serverStream(request: StreamRequest, context: HandlerContext) {
    const definition = request.responseDefinition;
    if (!definition) return;
    addHeaders(definition, context);
    yield* this.#rest(definition, { sent: 0, received: [request] }, context);
  }

  async *bidiStream(requests: AsyncIterable<StreamRequest>, context: HandlerContext) {
    let first: StreamRequest | undefined;
    let sent = 0;
    let received: StreamRequest[] = [];
    for await (const request of requests) {
      received.push(request);
      if (!first && request.responseDefinition) addHeaders(request.responseDefinition, context);
      first ??= request;
      if (!first.fullDuplex) continue;
      const { responseData = [], responseDelayMs = 0 } = first.responseDefinition ?? {};
      const data = responseData[sent];
      if (!data) break;
      await delay(responseDelayMs);
      const requestInfo = sent === 0 ? this.#requestInfo(received, context) : { requests: this.#packed(received) };
      yield { payload: { data, requestInfo } };
      sent++;
      received = [];
    }
    if (first?.responseDefinition) yield* this.#rest(first.responseDefinition, { sent, received }, context);
  }

  /** Yields the remaining responses. Then throws the error, if one is defined. */
  async *#rest(
    { responseData, responseDelayMs, error }: StreamDefinition,
    { sent, received }: { readonly sent: number; readonly received: readonly StreamRequest[] },
    context: HandlerContext,
  ) {
    for (const [i, data] of responseData.entries()) {
      if (i < sent) continue;
      await delay(responseDelayMs);
      yield { payload: { data, ...(i === 0 && { requestInfo: this.#requestInfo(received, context) }) } };
    }
    if (!error) return;
    const nothingSent = sent === 0 && responseData.length === 0;
    throw this.#error(error, nothingSent ? this.#requestInfo(received, context) : undefined);
  }

  /** Returns the data that the server received. @throws RangeError if the deadline is not in whole milliseconds */
  #requestInfo(requests: readonly Message[], context: HandlerContext) {
    const timeoutMs = context.timeoutMs();
    return {
      requestHeaders: Array.from(context.requestHeader, ([name, value]) => ({ name, value: [value] })),
      ...(timeoutMs !== undefined && { timeoutMs: BigInt(timeoutMs) }),
      requests: this.#packed(requests),
    };
  }

  #packed(requests: readonly Message[]) {
    return requests.map((request) => {
      const desc = this.#schemas.registry.getMessage(request.$typeName);
      if (!desc) throw new Error(`${request.$typeName} is not a message of the suite`);
      return anyPack(desc, request);
    });
  }

  #error(
    { code, message, details }: ErrorDefinition,
    requestInfo: { [name: string]: unknown } | undefined,
  ): ConnectError {
    const error = new ConnectError(message ?? "", code);
    for (const { typeUrl, value } of details) {
      error.details.push({ type: typeUrl.slice(typeUrl.lastIndexOf("/") + 1), value });
    }
    if (requestInfo) error.details.push({ desc: this.#schemas.requestInfo, value: requestInfo });
    return error;
  }
}

function addHeaders(
  { responseHeaders, responseTrailers }: { readonly responseHeaders: Header[]; readonly responseTrailers: Header[] },
  context: HandlerContext,
): void {
  const add = (fields: readonly Header[], to: Headers) => {
    for (const { name, value } of fields) for (const one of value) to.append(name, one);
  };
  add(responseHeaders, context.responseHeader);
  add(responseTrailers, context.responseTrailer);
}
