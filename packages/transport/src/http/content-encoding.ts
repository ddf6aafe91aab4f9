import type { Compression } from "@connectrpc/connect/protocol";
import { bodyBytes, type HeaderRecord, type HttpRequest, type HttpResponse, headerValue } from "../exchange.ts";
import { compress, inflate } from "../protocol/compression.ts";
import { messageTooLarge, RequestRefused } from "../protocol/refusals.ts";

/*
 * Content encodings of requests and responses that are not RPCs (RFC 9110, 8.4 and 12.5.3).
 */

/** Whether a client accepts an encoding, by its name in `Accept-Encoding`. */
export function acceptsEncoding(request: HeaderRecord, encoding: string): boolean {
  return (headerValue(request, "accept-encoding") ?? "").split(",").some((item) => {
    const [name = "", ...parameters] = item.split(";");
    return name.trim().toLowerCase() === encoding && !parameters.some((one) => /^ *q=0(?:\.0*)? *$/i.test(one));
  });
}

/**
 * Decompresses the body of a request. Throws or rejects with RequestRefused when it is too long, or not valid in its
 * declared encoding.
 */
export function decompressBody(
  { headers, body }: HttpRequest,
  limit: number,
  compressions: readonly Compression[],
): Uint8Array | Promise<Uint8Array> {
  if (body.byteLength > limit) throw messageTooLarge(limit, `body is larger than ${limit} bytes`);
  const encoding = headerValue(headers, "content-encoding")?.toLowerCase();
  if (encoding === undefined || encoding === "identity" || body.byteLength === 0) return body;
  const compression = compressions.find(({ name }) => name === encoding);
  if (compression) return inflate(body, compression, limit);
  throw new RequestRefused({ kind: "content-encoding", accepted: compressions.map(({ name }) => name) });
}

/**
 * Compresses a response that is long enough, with the first of our encodings that the client accepts, and adds the
 * content length.
 *
 * @param minBytes undefined: does not compress
 */
export function compressResponse(
  { status, headers, body }: HttpResponse,
  request: HeaderRecord,
  { minBytes, compressions }: { readonly minBytes: number | undefined; readonly compressions: readonly Compression[] },
): HttpResponse | Promise<HttpResponse> {
  const bytes = Buffer.byteLength(body);
  headers["content-length"] = String(bytes);
  if (minBytes === undefined) return { status, headers, body };
  headers["vary"] = headers["vary"] === undefined ? "accept-encoding" : `${headers["vary"]}, accept-encoding`;
  const compression = bytes < minBytes ? undefined : compressions.find(({ name }) => acceptsEncoding(request, name));
  if (!compression) return { status, headers, body };
  return compress(bodyBytes(body), compression).then((compressed) => {
    headers["content-encoding"] = compression.name;
    headers["content-length"] = String(compressed.byteLength);
    return { status, headers, body: compressed };
  });
}
