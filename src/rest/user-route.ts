import { type ParsedUrlQuery, parse as parseQuery } from "node:querystring";
import type { DescMethodUnary, Message } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { errorResponse, isMismatch } from "../http/error-response.ts";
import { MAX_MESSAGE_BYTES } from "../limits.ts";
import { malformed, refusedJson, tooLarge, unsupportedType } from "../rpc/refusals.ts";
import {
  COMPRESSIONS,
  type Endpoint,
  type EndpointCall,
  type EndpointMethod,
  type HeaderRecord,
  type HttpRequest,
  type HttpResponse,
  requireStrictJson,
} from "../transport/index.ts";
import { parseBody } from "./json-body.ts";
import { VERBS, type Verb, type VerbRequest } from "./verbs.ts";

/** Responses from this size on are compressed, in bytes. */
const COMPRESS_MIN_BYTES = 1024;

const JSON_TYPE = /^application\/json *(?:;|$)/i;
/** One entity tag of a list, with the comma or end that follows it (RFC 9110, 8.8.3 and 5.6.1). */
const ETAG = /[\t ,]*(W\/)?"([\x21\x23-\x7e]*)"[\t ]*(?:,[\t ,]*|$)/y;

/** The maximum number of entity tags in `If-Match`. Each may cost a call. */
const MAX_ETAGS = 10;

/** The REST shim `/api/user`: each verb is one RPC. */
export function userEndpoint(): Endpoint {
  return {
    protocolName: "rest",
    methods: new Map([...VERBS].map(([httpMethod, verb]) => [httpMethod, new UserRoute(verb)])),
  };
}

/** One verb of `/api/user`. */
class UserRoute implements EndpointMethod {
  readonly rpc: DescMethodUnary;
  readonly maxBytes = MAX_MESSAGE_BYTES;
  readonly #verb: Verb;

  constructor(verb: Verb) {
    this.#verb = verb;
    this.rpc = verb.method;
  }

  /** Serves a request. Never rejects. */
  async serve(request: HttpRequest, call: EndpointCall): Promise<HttpResponse> {
    let isConditional = false;
    try {
      const verbRequest = await read(request);
      isConditional = verbRequest.ifMatch !== undefined;
      requireStrict(this.#verb, verbRequest);
      const message: Message = this.#verb.toRequest(verbRequest);
      const [, ...otherTags] = verbRequest.ifMatch ?? [];
      const response = await callUntilMatch(call, message, otherTags);
      return await answerOf(this.#verb.toText(response.message as never, message as never), response, request);
    } catch (failure) {
      return errorResponse(call.toError(failure), isConditional);
    }
  }
}

function requireStrict({ method }: Verb, { body }: VerbRequest): void {
  try {
    requireStrictJson(method.input, body);
  } catch (cause) {
    throw refusedJson(cause, method.input);
  }
}

async function answerOf(
  text: string,
  { message, headers }: { readonly message: Message; readonly headers: HeaderRecord },
  request: HttpRequest,
): Promise<HttpResponse> {
  headers["content-type"] = "application/json";
  headers["vary"] = "accept-encoding";
  const { userGroup } = message as { userGroup?: { etag: string } };
  if (userGroup) headers["etag"] = `"${userGroup.etag}"`;
  const bytes = Buffer.byteLength(text);
  const compression = bytes < COMPRESS_MIN_BYTES ? undefined : accepted(one(request.headers, "accept-encoding"));
  if (!compression) {
    headers["content-length"] = String(bytes);
    return { status: 200, headers, body: text };
  }
  const body = await compression.compress(Buffer.from(text));
  headers["content-encoding"] = compression.name;
  headers["content-length"] = String(body.byteLength);
  return { status: 200, headers, body };
}

/** The first of our encodings that the client accepts. */
function accepted(acceptEncoding: string | undefined): (typeof COMPRESSIONS)[number] | undefined {
  const names = acceptEncoding
    ?.split(",")
    .filter((item) => !/; *q=0(?:\.0*)? *$/.test(item))
    .map((item) => item.split(";")[0]?.trim());
  return COMPRESSIONS.find(({ name }) => names?.includes(name));
}

/** Decompresses the body. @throws ConnectError when it is too long, or not valid in its declared encoding */
async function bodyOf({ headers, body }: HttpRequest): Promise<Uint8Array> {
  if (body.byteLength > MAX_MESSAGE_BYTES) throw tooLarge();
  const encoding = one(headers, "content-encoding")?.toLowerCase();
  if (encoding === undefined || encoding === "identity" || body.byteLength === 0) return body;
  const compression = COMPRESSIONS.find(({ name }) => name === encoding);
  if (!compression) {
    throw unsupportedType(`the Content-Encoding must be one of ${COMPRESSIONS.map(({ name }) => name).join(", ")}`);
  }
  try {
    return await compression.decompress(body as Uint8Array<ArrayBuffer>, MAX_MESSAGE_BYTES);
  } catch (cause) {
    if (cause instanceof ConnectError && cause.code === Code.ResourceExhausted) throw tooLarge();
    throw malformed(`the body is not valid ${encoding}`, [], cause);
  }
}

/**
 * Makes the call, and repeats it with the next entity tag as long as the etag does not match. A group has one etag at a
 * time, so at most one of the calls changes it.
 */
async function callUntilMatch(
  call: EndpointCall,
  message: Message,
  [etag, ...others]: readonly string[],
): ReturnType<EndpointCall["invoke"]> {
  try {
    return await call.invoke(message);
  } catch (failure) {
    if (etag === undefined || !isMismatch(failure)) throw failure;
    return callUntilMatch(call, Object.assign(message, { etag }), others);
  }
}

function requireJson(headers: HeaderRecord): void {
  const contentType = one(headers, "content-type");
  if (contentType !== undefined && !JSON_TYPE.test(contentType)) {
    throw unsupportedType("the Content-Type must be application/json");
  }
}

/** Reads a request. @throws ConnectError InvalidArgument */
async function read(request: HttpRequest): Promise<VerbRequest> {
  const { headers } = request;
  requireJson(headers);
  return {
    body: parseBody(await bodyOf(request)),
    query: queryOf(request.target),
    ifMatch: ifMatch(one(headers, "if-match")),
    idempotencyKey: idempotencyKey(one(headers, "idempotency-key")),
  };
}

/** Refuses an empty key, whose sender would believe that a retry is safe. @throws ConnectError InvalidArgument */
function idempotencyKey(value: string | undefined): string | undefined {
  if (value !== "") return value;
  throw malformed("the Idempotency-Key is empty; send a value, or leave the header out", [
    { field: "request_id", description: "must not be empty" },
  ]);
}

/**
 * Parses `If-Match`; undefined when any etag matches. @throws ConnectError InvalidArgument when it is neither a list of
 * entity tags nor `*`
 */
function ifMatch(value: string | undefined): string[] | undefined {
  if (value === undefined || value.trim() === "*") return undefined;
  const etags = new Set<string>();
  for (ETAG.lastIndex = 0; ETAG.lastIndex < value.length; ) {
    const match = ETAG.exec(value);
    if (!match) throw malformed('If-Match must be a list of entity tags, such as "abc", "def", or *', []);
    const [, weak, etag] = match;
    // A weak tag never matches (RFC 9110, 13.1.1). The `W/` keeps it from matching, because no stored etag is empty or
    // contains a slash.
    etags.add(weak || !etag ? `W/${etag}` : etag);
  }
  if (etags.size > MAX_ETAGS) throw malformed(`If-Match may list ${MAX_ETAGS} entity tags at most`, []);
  if (etags.size === 0) throw malformed("If-Match is empty; name an entity tag, or leave it out", []);
  return [...etags];
}

/**
 * Parses the query. @throws ConnectError InvalidArgument when it is not UTF-8; the parser would replace the invalid
 * bytes
 */
function queryOf(target: string): ParsedUrlQuery | undefined {
  const question = target.indexOf("?");
  if (question < 0) return undefined;
  // A second question mark is ignored, as URLSearchParams does.
  const text = target.slice(target.charAt(question + 1) === "?" ? question + 2 : question + 1);
  try {
    if (text.includes("%")) decodeURIComponent(text);
  } catch (cause) {
    throw malformed("the query string is not percent-encoded UTF-8", [], cause);
  }
  return parseQuery(text, "&", "=", ANY_NUMBER);
}

const ANY_NUMBER = { maxKeys: 0 };

function one(headers: HeaderRecord, name: string): string | undefined {
  const value = headers[name];
  return Array.isArray(value) ? value.join(", ") : value === undefined ? undefined : String(value);
}
