import { promisify } from "node:util";
import { brotliCompress, constants } from "node:zlib";
import { compressionBrotli, compressionGzip } from "@connectrpc/connect-node";

/** How hard Brotli tries, up to 11, its default, at which an answer of 10 KB takes tens of milliseconds; gzip needs as long as this. */
const BROTLI_QUALITY = 4;

const compressBrotli = promisify(brotliCompress);

/** Brotli for live traffic. Both ways it is Connect's but for the effort; what is inflated ends at the limit. */
const brotli: typeof compressionBrotli = {
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
export const COMPRESSIONS: readonly (typeof compressionGzip)[] = [compressionGzip, brotli];
