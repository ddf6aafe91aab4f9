// The server that the conformance suite tests: `server.ts NAME DESCRIPTORS`, where NAME is one of VARIANTS. What it is
// to be comes on standard input, and where it listens goes to standard output, each message behind its length.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createHttp2Server, createSecureServer, type Http2ServerRequest } from "node:http2";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo, Server } from "node:net";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import type { ConnectRouterOptions } from "@connectrpc/connect";
import { compressionBrotli, compressionGzip, connectNodeAdapter } from "@connectrpc/connect-node";
import { serveNode } from "../../src/index.ts";
import { readSchemas, type ServerCompatRequest } from "./schemas.ts";
import { conformanceRoutes } from "./service.ts";
import { VARIANTS } from "./variants.ts";

const HOST = "127.0.0.1";

/** What a server is made of. */
interface Plan {
  readonly options: ConnectRouterOptions & { readonly routes: ReturnType<typeof conformanceRoutes> };
  readonly isHttp1: boolean;
  /** In PEM. */
  readonly tls: { readonly cert: string; readonly key: string; readonly clientCa: string | undefined } | undefined;
}

const [variant, descriptors = ""] = process.argv.slice(2);
const schemas = readSchemas(descriptors);
const request = fromBinary(schemas.serverRequest, withoutLength(await standardInput())) as ServerCompatRequest;
const plan = planOf(request);
const port = await (variant === VARIANTS.port ? openOurs(plan) : openAdapter(plan));
const pemCert = request.serverCreds?.cert ?? new Uint8Array(0);
const response = create(schemas.serverResponse, { host: HOST, port, pemCert } as never);
process.stdout.write(withLength(toBinary(schemas.serverResponse, response)));

function planOf({ httpVersion, useTls, serverCreds, clientTlsCert, messageReceiveLimit }: ServerCompatRequest): Plan {
  const text = (bytes: Uint8Array) => Buffer.from(bytes).toString();
  return {
    options: {
      routes: conformanceRoutes(schemas),
      acceptCompression: [compressionGzip, compressionBrotli],
      jsonOptions: { registry: schemas.registry },
      ...(messageReceiveLimit > 0 && { readMaxBytes: messageReceiveLimit }),
    },
    isHttp1: httpVersion === 1,
    tls:
      useTls && serverCreds
        ? {
            cert: text(serverCreds.cert),
            key: text(serverCreds.key),
            clientCa: clientTlsCert.length > 0 ? text(clientTlsCert) : undefined,
          }
        : undefined,
  };
}

/** The service's own transport. Resolves with the port's number. */
async function openOurs({ options, tls }: Plan): Promise<number> {
  // Without `onRefused` it answers 404, 405 and 415 as Connect's adapter does: with a bare status.
  const { url } = await serveNode({ ...options, onError: console.error }, { host: HOST, port: 0, tls });
  return Number(new URL(url).port);
}

/** Connect's adapter on the runtime's own servers. Resolves with the port's number. */
async function openAdapter({ options, isHttp1, tls }: Plan): Promise<number> {
  const adapter = connectNodeAdapter(options) as (req: IncomingMessage, res: ServerResponse) => void;
  const serve = (req: IncomingMessage, res: ServerResponse) => {
    dropRest(req, res);
    adapter(req, res);
  };
  let server: Server;
  if (tls) {
    const { cert, key, clientCa } = tls;
    const certificates = { cert, key, ...(clientCa && { ca: clientCa, requestCert: true, rejectUnauthorized: true }) };
    server = isHttp1 ? createTlsServer(certificates, serve) : createSecureServer(certificates, serve as never);
  } else {
    server = isHttp1 ? createServer(serve) : createHttp2Server(serve as never);
  }
  await new Promise<void>((resolve) => server.listen(0, HOST, resolve));
  return (server.address() as AddressInfo).port;
}

/** The adapter leaves the rest of a message that is too long unread, and so its caller, and the next calls, waiting. */
function dropRest(req: IncomingMessage, res: ServerResponse): void {
  const stream = (req as unknown as Partial<Http2ServerRequest>).stream;
  (stream ?? res).once("finish", () => {
    // What waits to read would keep what comes from flowing.
    if (stream) stream.removeAllListeners("data").resume();
    else req.removeAllListeners("readable").resume();
  });
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
