// The server that the conformance suite tests: `server.ts DESCRIPTORS`. The server reads its configuration from
// standard input and writes its address to standard output. The length of each message precedes the message.
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { compressionBrotli, compressionGzip } from "@connectrpc/connect-node";
import { serveNode } from "../../src/index.ts";
import { readSchemas, type ServerCompatRequest } from "./schemas.ts";
import { conformanceRoutes } from "./service.ts";

const HOST = "127.0.0.1";

const [descriptors = ""] = process.argv.slice(2);
const schemas = readSchemas(descriptors);
const request = fromBinary(schemas.serverRequest, withoutLength(await standardInput())) as ServerCompatRequest;
const port = await open(request);
const pemCert = request.serverCreds?.cert ?? new Uint8Array(0);
const response = create(schemas.serverResponse, { host: HOST, port, pemCert } as never);
process.stdout.write(withLength(toBinary(schemas.serverResponse, response)));

async function open({ useTls, serverCreds, clientTlsCert, messageReceiveLimit }: ServerCompatRequest): Promise<number> {
  const text = (bytes: Uint8Array) => Buffer.from(bytes).toString();
  const options = {
    routes: conformanceRoutes(schemas),
    acceptCompression: [compressionGzip, compressionBrotli],
    jsonOptions: { registry: schemas.registry },
    ...(messageReceiveLimit > 0 && { readMaxBytes: messageReceiveLimit }),
    onError: console.error,
  };
  const tls =
    useTls && serverCreds
      ? {
          cert: text(serverCreds.cert),
          key: text(serverCreds.key),
          clientCa: clientTlsCert.length > 0 ? text(clientTlsCert) : undefined,
        }
      : undefined;
  // `onRefused` is omitted, so a response with 404, 405 or 415 contains only the status, as from Connect's adapter.
  const { url } = await serveNode(options, { host: HOST, port: 0, tls });
  return Number(new URL(url).port);
}

async function standardInput(): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of process.stdin) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

function withoutLength(bytes: Buffer): Buffer {
  return bytes.subarray(4, 4 + bytes.readUInt32BE());
}

function withLength(message: Uint8Array): Buffer {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(message.byteLength);
  return Buffer.concat([length, message]);
}
