import type { Message } from "@bufbuild/protobuf";
import {
  type Endpoint,
  type EndpointMethod,
  type HttpRequest,
  headerValue,
  type Invoke,
  requireStrictJson,
} from "@user-group-service/transport";
import { isEtagMismatch } from "../http/error-response.ts";
import { malformed, refusedJson } from "../rpc/refusals.ts";
import { jsonMethod, jsonResponse, parseFields, readBody } from "./json-body.ts";
import { VERBS, type Verb, type VerbRequest } from "./verbs.ts";

/** One entity tag of a list, with the comma or end that follows it (RFC 9110, 8.8.3 and 5.6.1). */
const ETAG = /[\t ,]*(W\/)?"([\x21\x23-\x7e]*)"[\t ]*(?:,[\t ,]*|$)/y;

/** The maximum number of entity tags in `If-Match`. Each may cost a call. */
const MAX_ETAGS = 10;

/** The REST shim `/api/user`: each verb is one RPC. */
export function userEndpoint(): Endpoint {
  return {
    protocolName: "rest",
    methods: new Map([...VERBS].map(([httpMethod, verb]) => [httpMethod, methodOf(verb)])),
  };
}

function methodOf(verb: Verb): EndpointMethod {
  return jsonMethod(verb.method, async (request, invoke) => {
    const verbRequest = read(request);
    requireStrict(verb, verbRequest);
    const message: Message = verb.toRequest(verbRequest);
    const [, ...otherTags] = verbRequest.ifMatch ?? [];
    const { message: output, headers } = await callUntilMatch(invoke, message, otherTags);
    const { userGroup } = output as { userGroup?: { etag: string } };
    if (userGroup) headers["etag"] = `"${userGroup.etag}"`;
    return jsonResponse(headers, verb.toText(output as never, message as never));
  });
}

function requireStrict({ method }: Verb, { body }: VerbRequest): void {
  try {
    requireStrictJson(method.input, body);
  } catch (cause) {
    throw refusedJson(cause, method.input);
  }
}

/**
 * Makes the call, and repeats it with the next entity tag as long as the etag does not match. A group has one etag at a
 * time, so at most one of the calls changes it.
 */
async function callUntilMatch(
  invoke: Invoke,
  message: Message,
  [etag, ...others]: readonly string[],
): ReturnType<Invoke> {
  try {
    return await invoke(message);
  } catch (failure) {
    if (etag === undefined || !isEtagMismatch(failure)) throw failure;
    return callUntilMatch(invoke, Object.assign(message, { etag }), others);
  }
}

/** Reads a request. @throws RequestRefused, ConnectError InvalidArgument */
function read(request: HttpRequest): VerbRequest {
  const { headers, target } = request;
  const question = target.indexOf("?");
  return {
    body: readBody(request),
    query: question < 0 ? undefined : parseFields(target.slice(question + 1), "the query string"),
    ifMatch: ifMatch(headerValue(headers, "if-match")),
    idempotencyKey: idempotencyKey(headerValue(headers, "idempotency-key")),
  };
}

/** Refuses an empty key, whose sender would believe that a retry is safe. @throws ConnectError InvalidArgument */
function idempotencyKey(value: string | null): string | undefined {
  if (value !== "") return value ?? undefined;
  throw malformed("the Idempotency-Key is empty; send a value, or leave the header out", [
    { field: "request_id", description: "must not be empty" },
  ]);
}

/**
 * Parses `If-Match`; undefined when any etag matches. @throws ConnectError InvalidArgument when it is neither a list of
 * entity tags nor `*`
 */
function ifMatch(value: string | null): string[] | undefined {
  if (value === null || value.trim() === "*") return undefined;
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
