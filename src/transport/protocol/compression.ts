import { promisify } from "node:util";
import { brotliCompress, constants } from "node:zlib";
import { Code } from "@connectrpc/connect";
import type { Compression, UniversalHandlerOptions } from "@connectrpc/connect/protocol";
import { compressionBrotli, compressionGzip } from "@connectrpc/connect-node";
import { asConnectError, RequestRefused } from "./refusals.ts";

/** How hard Brotli tries, up to 11, its default, at which an answer of 10 KB takes tens of milliseconds; gzip needs as long as this. */
const BROTLI_QUALITY = 4;

const compressBrotli = promisify(brotliCompress);

/** Brotli for live traffic. Both ways it is Connect's but for the effort; what is inflated ends at the limit. */
const brotli: Compression = {
  ...compressionBrotli,
  compress: (bytes) =>
    compressBrotli(bytes, {
      params: {
        [constants.BROTLI_PARAM_QUALITY]: BROTLI_QUALITY,
        [constants.BROTLI_PARAM_SIZE_HINT]: bytes.byteLength,
      },
    }) as Promise<Uint8Array<ArrayBuffer>>,
};

/** gzip and Brotli, most wanted first: those of Connect's adapter, for a server that anybody may ask. */
export const COMPRESSIONS: readonly Compression[] = [compressionGzip, brotli];

/** Inflates what a caller compressed. Rejects with RequestRefused when it is not valid, or longer than so many bytes. */
export function inflate(bytes: Uint8Array, { name, decompress }: Compression, limit: number): Promise<Uint8Array> {
  return decompress(bytes as Uint8Array<ArrayBuffer>, limit).catch((reason: unknown) => {
    const error = asConnectError(reason);
    if (error.code === Code.ResourceExhausted) throw new RequestRefused({ kind: "message-too-large", limit, error });
    throw new RequestRefused({ kind: "malformed-compression", encoding: name, error });
  });
}

/** Compresses an answer that is worth it. */
export function compress(body: Uint8Array, compression: Compression): Promise<Uint8Array> {
  return compression.compress(body as Uint8Array<ArrayBuffer>);
}

/** Whether an answer of so many bytes is large enough to be compressed. */
export function worthCompressing(
  bytes: number,
  compression: Compression | null,
  options: UniversalHandlerOptions,
): compression is Compression {
  return compression !== null && bytes >= options.compressMinBytes;
}
