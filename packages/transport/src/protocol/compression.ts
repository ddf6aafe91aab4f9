import { promisify } from "node:util";
import { brotliCompress, constants } from "node:zlib";
import { Code } from "@connectrpc/connect";
import type { Compression } from "@connectrpc/connect/protocol";
import { compressionBrotli, compressionGzip } from "@connectrpc/connect-node";
import { bodyBytes } from "../http-types.ts";
import { asConnectError, RefusalError } from "./refusals.ts";

/**
 * The quality of Brotli, from 0 to 11. At 4, Brotli is as fast as gzip. At the default of 11, 10 KB take 10 ms or more.
 */
const BROTLI_QUALITY = 4;

const compressBrotli = promisify(brotliCompress);

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

/** gzip and Brotli in order of preference, as in Connect's adapter. */
export const COMPRESSIONS: readonly Compression[] = [compressionGzip, brotli];

/** Decompresses data. Rejects with RefusalError if the data is malformed or longer than `maxBytes`. */
export function inflate(bytes: Uint8Array, { name, decompress }: Compression, maxBytes: number): Promise<Buffer> {
  return decompress(bytes as Uint8Array<ArrayBuffer>, maxBytes).then(bodyBytes, (reason: unknown) => {
    const error = asConnectError(reason);
    if (error.code === Code.ResourceExhausted) throw new RefusalError({ kind: "message-too-large", maxBytes, error });
    throw new RefusalError({ kind: "malformed-compression", encoding: name, error });
  });
}

export function compress(body: Uint8Array, compression: Compression): Promise<Uint8Array> {
  return compression.compress(body as Uint8Array<ArrayBuffer>);
}
