import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { Code, ConnectError, type Transport } from "@connectrpc/connect";
import { findTrailerError } from "@connectrpc/connect/protocol-grpc";
import { Client, credentials, Metadata, type ServiceError } from "@grpc/grpc-js";

/** A Connect transport for unary calls by grpc-js, so Connect clients behave like those of grpc-js. */
export function openGrpcJsTransport(url: string, { gzip = false } = {}): { transport: Transport; close: () => void } {
  // 2 is gzip (https://github.com/grpc/grpc/blob/master/doc/compression.md).
  const options = gzip ? { "grpc.default_compression_algorithm": 2 } : {};
  const client = new Client(new URL(url).host, credentials.createInsecure(), options);
  const transport: Transport = {
    unary: (method, _signal, _timeoutMs, header, input, _contextValues) =>
      new Promise((resolve, reject) => {
        const metadata = new Metadata();
        for (const [name, value] of new Headers(header)) metadata.set(name, value);
        const received = new Headers();
        const trailer = new Headers();
        const call = client.makeUnaryRequest(
          `/${method.parent.typeName}/${method.name}`,
          (message) => Buffer.from(toBinary(method.input, message)),
          (bytes) => fromBinary(method.output, bytes),
          create(method.input, input),
          metadata,
          (error, message) => {
            if (error) return reject(connectError(error, received));
            if (!message) return reject(new ConnectError("no message", Code.Internal));
            resolve({ stream: false, service: method.parent, method, header: received, message, trailer });
          },
        );
        call.on("metadata", (fields) => copy(fields, received));
        call.on("status", ({ metadata: fields }) => copy(fields, trailer));
      }),
    stream: () => Promise.reject(new ConnectError("this transport does not support streams", Code.Unimplemented)),
  };
  return { transport, close: () => client.close() };
}

/** Converts a grpc-js error to a ConnectError, as Connect does with gRPC trailers. */
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
