import { type ParsedUrlQuery, parse as parseQuery } from "node:querystring";
import type { DescMessage, DescMethodUnary, Message, MessageShape } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import type { Compression } from "@connectrpc/connect/protocol";
import type { JsonObject } from "../domain/user-group.ts";
import { callError, toCallError } from "../rpc/errors.ts";
import { MAX_MESSAGE_BYTES, malformed, refusedJson, tooLarge } from "../rpc/refused.ts";
import { errorResponse, isMismatch, type RestResponse } from "./errors.ts";
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
  /** In milliseconds of Unix time, where it is known. */
  readonly arrived?: number | undefined;
}

/** Makes a typed call through the interceptors; rejects with the ConnectError that they make of a failure. */
export type TypedCall = <M extends DescMethodUnary>(
  method: M,
  message: MessageShape<M["input"]>,
) => Promise<{ readonly message: MessageShape<M["output"]>; readonly headers: RestHeaders }>;

/** What the route is made of. */
export interface UserRouteOptions {
  /** Told of every request that fails before it is a call, and may add to what is answered. */
  readonly onRefused: (error: ConnectError, request: RestRequest, method: DescMethodUnary) => ConnectError;
  /** Refuses what protobuf-es takes for the JSON of a message although it is none. @throws Error */
  readonly requireStrictJson: (desc: DescMessage, json: JsonObject) => void;
  /** Encodings of bodies, most wanted first. */
  readonly compressions: readonly Compression[];
}

/** Answers shorter than this are not worth compressing, in bytes. */
const COMPRESS_MIN_BYTES = 1024;

const JSON_TYPE = /^application\/json *(?:;|$)/i;
/** An entity tag of a list, and the comma or the end behind it (RFC 9110, 8.8.3 and 5.6.1). */
const ETAG = /[\t ,]*(W\/)?"([\x21\x23-\x7e]*)"[\t ]*(?:,[\t ,]*|$)/y;

/** Each entity tag is a call of its own until one matches. */
const MAX_ETAGS = 10;

/** Whether a path is that of the shim. */
export function isUserRoute(path: string): boolean {
  return path === "/api/user" || path === "/api/user/";
}

/** The REST shim: each verb is one RPC. Never rejects. */
export class UserRoute {
  readonly #options: UserRouteOptions;

  constructor(options: UserRouteOptions) {
    this.#options = options;
  }

  /** Whether the body that was read so far is too long, so that the rest need not be read. */
  isTooLong(total: number): boolean {
    return total > MAX_MESSAGE_BYTES;
  }

  /** @param call makes the request's call */
  serve(verb: Verb, request: RestRequest, call: TypedCall): Promise<RestResponse> {
    try {
      requireJson(request.headers);
      const body = this.#bodyOf(request);
      // Most bodies are not compressed, and need no promise.
      return body instanceof Promise
        ? body
            .then((bytes) => this.#call(verb, { ...request, body: bytes }, call))
            .catch((failure) => errorResponse(this.#refused(failure, verb, request), false))
        : this.#call(verb, request, call);
    } catch (failure) {
      return Promise.resolve(errorResponse(this.#refused(failure, verb, request), false));
    }
  }

  #refused(failure: unknown, { method }: Verb, request: RestRequest): ConnectError {
    return this.#options.onRefused(toCallError(failure), request, method);
  }

  /** Never rejects. @throws what is wrong with the request */
  #call(verb: Verb, request: RestRequest, call: TypedCall): Promise<RestResponse> {
    const verbRequest = read(request);
    this.#requireStrict(verb, verbRequest);
    const message: Message = verb.toRequest(verbRequest);
    const fail = (failure: unknown) => {
      // What the call did not raise has not been counted and logged.
      const error = failure instanceof ConnectError ? failure : this.#refused(failure, verb, request);
      return errorResponse(error, verbRequest.ifMatch !== undefined);
    };
    const [, ...otherTags] = verbRequest.ifMatch ?? [];
    return callUntilMatch(call, verb, message, otherTags).then((response) => {
      try {
        const answer = this.#answer(verb.toText(response.message as never, message as never), response, request);
        return answer instanceof Promise ? answer.catch(fail) : answer;
      } catch (failure) {
        return fail(failure);
      }
    }, fail);
  }

  #requireStrict({ method }: Verb, { body }: VerbRequest): void {
    try {
      this.#options.requireStrictJson(method.input, body);
    } catch (cause) {
      throw refusedJson(cause, method.input);
    }
  }

  #answer(
    text: string,
    { message, headers }: { readonly message: Message; readonly headers: RestHeaders },
    request: RestRequest,
  ): RestResponse | Promise<RestResponse> {
    headers["content-type"] = "application/json";
    headers["vary"] = "accept-encoding";
    const { userGroup } = message as { userGroup?: { etag: string } };
    if (userGroup) headers["etag"] = `"${userGroup.etag}"`;
    const bytes = Buffer.byteLength(text);
    const compression =
      bytes < COMPRESS_MIN_BYTES ? undefined : this.#accepted(one(request.headers, "accept-encoding"));
    if (!compression) {
      headers["content-length"] = String(bytes);
      return { status: 200, headers, body: text };
    }
    return compression.compress(Buffer.from(text)).then((body) => {
      headers["content-encoding"] = compression.name;
      headers["content-length"] = String(body.byteLength);
      return { status: 200, headers, body };
    });
  }

  /** The first of our encodings that the caller accepts. */
  #accepted(accepted: string | undefined): Compression | undefined {
    const names = accepted
      ?.split(",")
      .filter((item) => !/; *q=0(?:\.0*)? *$/.test(item))
      .map((item) => item.split(";")[0]?.trim());
    return this.#options.compressions.find(({ name }) => names?.includes(name));
  }

  #bodyOf({ headers, body }: RestRequest): Uint8Array | Promise<Uint8Array> {
    if (body.byteLength > MAX_MESSAGE_BYTES) throw tooLarge();
    const encoding = one(headers, "content-encoding")?.toLowerCase();
    return encoding === undefined || encoding === "identity" || body.byteLength === 0
      ? body
      : this.#decompressed(body, encoding);
  }

  async #decompressed(body: Uint8Array, encoding: string): Promise<Uint8Array> {
    const compression = this.#options.compressions.find(({ name }) => name === encoding);
    if (!compression) {
      const known = this.#options.compressions.map(({ name }) => name).join(", ");
      throw unsupported(`the Content-Encoding must be one of ${known}`);
    }
    try {
      return await compression.decompress(body as Uint8Array<ArrayBuffer>, MAX_MESSAGE_BYTES);
    } catch (cause) {
      if (cause instanceof ConnectError && cause.code === Code.ResourceExhausted) throw tooLarge();
      throw malformed(`the body is not valid ${encoding}`, [], cause);
    }
  }
}

/** The error of an HTTP method that the path does not have. */
export function verbNotAllowed(httpMethod: string): ConnectError {
  const allowed = [...VERBS.keys()].join(", ");
  const error = callError(Code.Unimplemented, `${httpMethod} is not a method of this path; it has ${allowed}`, {
    reason: "METHOD_NOT_ALLOWED",
  });
  error.metadata.set("allow", allowed);
  return error;
}

/**
 * Makes a call, and again with each of the other etags for as long as the group has none of those before. A group has
 * one etag at a time, so at most one of the calls changes it.
 */
function callUntilMatch(
  call: TypedCall,
  verb: Verb,
  message: Message,
  [etag, ...others]: readonly string[],
): ReturnType<TypedCall> {
  const answer = call(verb.method, message as never);
  if (etag === undefined) return answer;
  return answer.catch((failure: unknown) => {
    if (!isMismatch(failure)) throw failure;
    return callUntilMatch(call, verb, Object.assign(message, { etag }), others);
  });
}

function requireJson(headers: RestHeaders): void {
  const contentType = one(headers, "content-type");
  if (contentType !== undefined && !JSON_TYPE.test(contentType)) {
    throw unsupported("the Content-Type must be application/json");
  }
}

function unsupported(message: string): ConnectError {
  return callError(Code.InvalidArgument, message, { reason: "UNSUPPORTED_MEDIA_TYPE" });
}

function read({ headers, target, body }: RestRequest): VerbRequest {
  return {
    body: parseBody(body),
    query: queryOf(target),
    ifMatch: ifMatch(one(headers, "if-match")),
    idempotencyKey: idempotencyKey(one(headers, "idempotency-key")),
  };
}

/** @throws ConnectError InvalidArgument when it is empty, for its sender believes that a retry is safe */
function idempotencyKey(value: string | undefined): string | undefined {
  if (value !== "") return value;
  throw malformed("the Idempotency-Key is empty; send a value, or leave the header out", [
    { field: "request_id", description: "must not be empty" },
  ]);
}

/** @throws ConnectError InvalidArgument when it is no list of entity tags and not `*` */
function ifMatch(value: string | undefined): string[] | undefined {
  if (value === undefined || value.trim() === "*") return undefined;
  const etags = new Set<string>();
  for (ETAG.lastIndex = 0; ETAG.lastIndex < value.length; ) {
    const match = ETAG.exec(value);
    if (!match) throw malformed('If-Match must be a list of entity tags, such as "abc", "def", or *', []);
    const [, weak, etag] = match;
    // A weak tag never matches here (RFC 9110, 13.1.1), and no stored etag is empty or has a slash in it.
    etags.add(weak || !etag ? `W/${etag}` : etag);
  }
  if (etags.size > MAX_ETAGS) throw malformed(`If-Match may list ${MAX_ETAGS} entity tags at most`, []);
  if (etags.size === 0) throw malformed("If-Match is empty; name an entity tag, or leave it out", []);
  return [...etags];
}

/** @throws ConnectError InvalidArgument when it is not UTF-8, whose place the parser would give to other characters */
function queryOf(target: string): ParsedUrlQuery | undefined {
  const question = target.indexOf("?");
  if (question < 0) return undefined;
  // A second question mark is passed over, as URLSearchParams does it.
  const text = target.slice(target.charAt(question + 1) === "?" ? question + 2 : question + 1);
  try {
    if (text.includes("%")) decodeURIComponent(text);
  } catch (cause) {
    throw malformed("the query string is not percent-encoded UTF-8", [], cause);
  }
  return parseQuery(text, "&", "=", ANY_NUMBER);
}

const ANY_NUMBER = { maxKeys: 0 };

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
