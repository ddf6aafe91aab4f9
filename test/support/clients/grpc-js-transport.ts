import { create, fromBinary, type MessageShape, toBinary } from "@bufbuild/protobuf";
import { Code, ConnectError, type Transport } from "@connectrpc/connect";
import { findTrailerError } from "@connectrpc/connect/protocol-grpc";
import { Client, credentials, Metadata, type ServiceError } from "@grpc/grpc-js";

/**
 * Opens a transport that sends the calls of Connect clients with grpc-js. The behaviour on the network is that of
 * grpc-js, not that of connect-node. The transport does not support client streams.
 */
export function openGrpcJsTransport(url: string, { gzip = false } = {}): { transport: Transport; close: () => void } {
  // 2 means gzip (https://github.com/grpc/grpc/blob/master/doc/compression.md).
  const options = gzip ? { "grpc.default_compression_algorithm": 2 } : {};
  const client = new Client(new URL(url).host, credentials.createInsecure(), options);
  const transport: Transport = {
    unary: (method, _signal, _timeoutMs, header, input, _contextValues) =>
      new Promise((resolve, reject) => {
        const received = new Headers();
        const trailer = new Headers();
        const call = client.makeUnaryRequest(
          `/${method.parent.typeName}/${method.name}`,
          (message) => Buffer.from(toBinary(method.input, message)),
          (bytes) => fromBinary(method.output, bytes),
          create(method.input, input),
          metadataOf(header),
          (error, message) => {
            if (error) return reject(connectError(error, received));
            if (!message) return reject(new ConnectError("no message", Code.Internal));
            resolve({ stream: false, service: method.parent, method, header: received, message, trailer });
          },
        );
        call.on("metadata", (fields) => copy(fields, received));
        call.on("status", ({ metadata: fields }) => copy(fields, trailer));
      }),
    stream: async (method, signal, _timeoutMs, header, input) => {
      if (method.methodKind !== "server_streaming")
        throw new ConnectError("this transport does not support client streams", Code.Unimplemented);
      const { value } = await input[Symbol.asyncIterator]().next();
      const received = new Headers();
      const trailer = new Headers();
      const call = client.makeServerStreamRequest(
        `/${method.parent.typeName}/${method.name}`,
        (message: MessageShape<typeof method.input>) => Buffer.from(toBinary(method.input, message)),
        (bytes) => fromBinary(method.output, bytes),
        create(method.input, value),
        metadataOf(header),
      );
      signal?.addEventListener("abort", () => call.cancel());
      call.on("metadata", (fields) => copy(fields, received));
      call.on("status", ({ metadata: fields }) => copy(fields, trailer));
      async function* messages() {
        try {
          yield* call;
        } catch (error) {
          throw connectError(error as ServiceError, received);
        }
      }
      return { stream: true, service: method.parent, method, header: received, message: messages(), trailer };
    },
  };
  return { transport, close: () => client.close() };
}

function metadataOf(header: HeadersInit | undefined): Metadata {
  const metadata = new Metadata();
  for (const [name, value] of new Headers(header)) metadata.set(name, value);
  return metadata;
}

/**
 * Converts an error of grpc-js to a ConnectError. The result is the same error that connect-node creates if it receives
 * the same gRPC trailers.
 */
function connectError({ code, details, metadata }: ServiceError, header: Headers): ConnectError {
  const trailer = new Headers(header);
  copy(metadata, trailer);
  trailer.set("grpc-status", String(code));
  trailer.set("grpc-message", encodeURIComponent(details));
  return findTrailerError(trailer) ?? new ConnectError(details, code as number as Code);
}

function copy(from: Metadata, to: Headers): void {
  for (const [name, value] of Object.entries(from.getMap())) {
    to.set(name, typeof value === "string" ? value : value.toString("base64"));
  }
}
