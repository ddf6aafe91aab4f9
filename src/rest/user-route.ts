import type { DescMethodUnary, Message, MessageShape } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import type { Compression } from "@connectrpc/connect/protocol";
import { callError } from "../rpc/errors.ts";
import { MAX_MESSAGE_BYTES, malformed, tooLarge } from "../rpc/refused.ts";
import { errorResponse, type RestResponse } from "./errors.ts";
import { parseBody } from "./json-body.ts";
import { VERBS, type Verb, type VerbRequest } from "./verbs.ts";

/** Fields of a request or response by lower-case name. */
export type RestHeaders = { [name: string]: string | string[] | number | undefined };

/** A request whose body has been read. */
export interface RestRequest {
  readonly httpMethod: string;
  /** Path and query. */
  readonly target: string;
  readonly headers: RestHeaders;
  readonly body: Uint8Array;
}

/** Makes a typed call through the interceptors; rejects with what they make of a failure. */
export type TypedCall<R extends RestRequest> = <M extends DescMethodUnary>(
  method: M,
  message: MessageShape<M["input"]>,
  request: R,
) => Promise<{ readonly message: MessageShape<M["output"]>; readonly headers: RestHeaders }>;

/** What the route is made of. */
export interface UserRouteOptions<R extends RestRequest> {
  readonly call: TypedCall<R>;
  /** Told of every request that fails before it is a call, and may add to what is answered. */
  readonly onRefused: (error: ConnectError, request: R) => ConnectError;
  /** Encodings of bodies, most wanted first. */
  readonly compressions: readonly Compression[];
}

/** Answers shorter than this are not worth compressing, in bytes. */
const COMPRESS_MIN_BYTES = 1024;

const JSON_TYPE = /^application\/json *(?:;|$)/i;
const ETAG = /^ *(W\/)?"([\x21\x23-\x7e]*)" *$/;

/** Whether a path is that of the shim. */
export function isUserRoute(path: string): boolean {
  return path === "/api/user" || path === "/api/user/";
}

/** The REST shim: each verb is one RPC. Never rejects. */
export class UserRoute<R extends RestRequest> {
  readonly #options: UserRouteOptions<R>;

  constructor(options: UserRouteOptions<R>) {
    this.#options = options;
  }

  /** Whether the body that was read so far is too long, so that the rest need not be read. */
  isTooLong(total: number): boolean {
    return total > MAX_MESSAGE_BYTES;
  }

  async serve(request: R): Promise<RestResponse> {
    let error: ConnectError;
    try {
      const verb = VERBS.get(request.httpMethod);
      if (!verb) throw methodNotAllowed(request.httpMethod);
      const verbRequest = await this.#read(request);
      const message = verb.toRequest(verbRequest);
      try {
        return await this.#answer(verb, message, verbRequest, request);
      } catch (failure) {
        return errorResponse(ConnectError.from(failure, Code.Internal), verbRequest.ifMatch !== undefined);
      }
    } catch (failure) {
      error =
        failure instanceof ConnectError
          ? failure
          : callError(Code.Internal, "internal error", { reason: "INTERNAL", cause: failure });
    }
    return errorResponse(this.#options.onRefused(error, request), false);
  }

  async #answer(verb: Verb, message: Message, verbRequest: VerbRequest, request: R): Promise<RestResponse> {
    const response = await this.#options.call(verb.method, message as never, request);
    const headers: RestHeaders = {
      ...response.headers,
      "content-type": "application/json",
      "cache-control": "no-store",
    };
    const { userGroup } = response.message as { userGroup?: { etag: string } };
    if (userGroup) headers["etag"] = `"${userGroup.etag}"`;
    const body = Buffer.from(JSON.stringify(verb.toBody(response.message as never, verbRequest)));
    return this.#compressed({ status: 200, headers, body }, request);
  }

  async #read(request: R): Promise<VerbRequest> {
    const { headers, target } = request;
    const contentType = one(headers, "content-type");
    if (contentType !== undefined && !JSON_TYPE.test(contentType)) {
      throw callError(Code.InvalidArgument, "the Content-Type must be application/json", {
        reason: "UNSUPPORTED_MEDIA_TYPE",
      });
    }
    if (request.body.byteLength > MAX_MESSAGE_BYTES) throw tooLarge();
    return {
      body: parseBody(await this.#decompressed(request)),
      query: queryOf(target),
      ifMatch: ifMatch(one(headers, "if-match")),
      idempotencyKey: one(headers, "idempotency-key"),
    };
  }

  async #decompressed({ headers, body }: R): Promise<Uint8Array> {
    const encoding = one(headers, "content-encoding");
    if (encoding === undefined || encoding === "identity" || body.byteLength === 0) return body;
    const compression = this.#options.compressions.find(({ name }) => name === encoding);
    if (!compression) {
      const known = this.#options.compressions.map(({ name }) => name).join(", ");
      throw callError(Code.InvalidArgument, `the Content-Encoding must be one of ${known}`, {
        reason: "UNSUPPORTED_MEDIA_TYPE",
      });
    }
    try {
      return await compression.decompress(body as Uint8Array<ArrayBuffer>, MAX_MESSAGE_BYTES);
    } catch (cause) {
      if (cause instanceof ConnectError && cause.code === Code.ResourceExhausted) throw tooLarge();
      throw malformed(`the body is not valid ${encoding}`, [], cause);
    }
  }

  async #compressed(response: RestResponse, request: R): Promise<RestResponse> {
    const accepted = one(request.headers, "accept-encoding");
    response.headers["vary"] = "accept-encoding";
    if (accepted !== undefined && response.body.byteLength >= COMPRESS_MIN_BYTES) {
      const names = accepted
        .split(",")
        .filter((item) => !/; *q=0(?:\.0*)? *$/.test(item))
        .map((item) => item.split(";")[0]?.trim());
      const compression = this.#options.compressions.find(({ name }) => names.includes(name));
      if (compression) {
        response.headers["content-encoding"] = compression.name;
        const body = await compression.compress(response.body as Uint8Array<ArrayBuffer>);
        return withLength({ ...response, body });
      }
    }
    return withLength(response);
  }
}

function withLength(response: RestResponse): RestResponse {
  response.headers["content-length"] = String(response.body.byteLength);
  return response;
}

function methodNotAllowed(httpMethod: string): ConnectError {
  const allowed = [...VERBS.keys()].join(", ");
  const error = callError(Code.Unimplemented, `${httpMethod} is not a method of this path; it has ${allowed}`, {
    reason: "METHOD_NOT_ALLOWED",
  });
  error.metadata.set("allow", allowed);
  return error;
}

/** @throws ConnectError InvalidArgument when it is not one entity tag or `*` */
function ifMatch(value: string | undefined): string | undefined {
  if (value === undefined || value.trim() === "*") return undefined;
  const match = ETAG.exec(value);
  if (!match) throw malformed('If-Match must be one entity tag, such as "abc", or *', []);
  // A weak tag never matches here (RFC 9110, 13.1.1), and no stored etag is empty or has a slash in it.
  return match[1] || !match[2] ? `W/${match[2]}` : match[2];
}

/** @throws ConnectError InvalidArgument when it is not UTF-8, whose place URLSearchParams would give to other characters */
function queryOf(target: string): URLSearchParams {
  const question = target.indexOf("?");
  const text = question < 0 ? "" : target.slice(question + 1);
  try {
    if (text.includes("%")) decodeURIComponent(text);
  } catch (cause) {
    throw malformed("the query string is not percent-encoded UTF-8", [], cause);
  }
  return new URLSearchParams(text);
}

function one(headers: RestHeaders, name: string): string | undefined {
  const value = headers[name];
  return Array.isArray(value) ? value.join(", ") : value === undefined ? undefined : String(value);
}

/** The error of a path that nothing serves. */
export function pathNotFound(): ConnectError {
  return callError(Code.NotFound, "nothing is served at this path; the REST interface is at /api/user", {
    reason: "PATH_NOT_FOUND",
  });
}
