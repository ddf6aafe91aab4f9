import { brotliCompressSync, gzipSync } from "node:zlib";
import { createRegistry, type JsonValue, toBinary, toJsonString } from "@bufbuild/protobuf";
import { PlainSchema } from "../gen/talk/v1/plain_pb.ts";
import { TalkService } from "../gen/talk/v1/talk_pb.ts";
import { type Spoken, schemaOf } from "./differential-service.ts";
import type { FieldList, RawRequest } from "./differential-wire.ts";

export interface Form {
  readonly name: string;
  readonly http: 1 | 2;
  readonly protocol: "grpc" | "grpc-web" | "connect";
  readonly binary: boolean;
}

export const FORMS: readonly Form[] = ([1, 2] as const).flatMap((http) =>
  (["grpc", "grpc-web", "connect"] as const).flatMap((protocol) =>
    [true, false].map((binary) => {
      const name = `${protocol} ${binary ? "binary" : "JSON"} over HTTP/${http}`;
      return { name, http, protocol, binary };
    }),
  ),
);

export interface RequestOptions {
  readonly headers?: FieldList;
  readonly trailers?: FieldList;
  /** The compression of the message. A header field declares this compression. */
  readonly compression?: "gzip" | "br" | "identity";
  readonly method?: string;
  readonly rpc?: string;
  readonly withLength?: boolean;
  readonly cuts?: readonly number[];
  readonly query?: string;
}

const COMPRESS = {
  gzip: (bytes: Uint8Array): Uint8Array => gzipSync(bytes),
  br: (bytes: Uint8Array): Uint8Array => brotliCompressSync(bytes),
  identity: (bytes: Uint8Array): Uint8Array => bytes,
};

/** The message types that an Any may contain. The servers have no registry of message types. */
const registry = createRegistry(PlainSchema);

/** Creates a well-formed request. By default, a `Plain` is sent to the method `Tell`, and a `Talk` to `Look`. */
export function requestOf(form: Form, message: Spoken, options: RequestOptions = {}): RawRequest {
  const { compression, rpc = message.$typeName === PlainSchema.typeName ? "Tell" : "Look" } = options;
  const desc = schemaOf(message);
  const plain = form.binary ? toBinary(desc, message) : Buffer.from(toJsonString(desc, message, { registry }));
  const bytes = compression === undefined ? plain : COMPRESS[compression](plain);
  return requestWith(form, bytes, { ...options, rpc });
}

export function requestWith(form: Form, message: Uint8Array, options: RequestOptions = {}): RawRequest {
  const { compression, rpc = "Look", method = "POST", headers = [], withLength = true, query = "" } = options;
  const path = `/${TalkService.typeName}/${rpc}`;
  const common = { http: form.http, withLength, cuts: options.cuts ?? [], trailers: options.trailers };
  const rest = { ...common, method, target: path + query };
  const type: [string, string] = ["content-type", contentType(form)];
  if (form.protocol === "connect") {
    const encoding: FieldList = compression === undefined ? [] : [["content-encoding", compression]];
    return { ...rest, headers: [type, ...encoding, ...headers], body: message };
  }
  const encoding: FieldList = compression === undefined ? [] : [["grpc-encoding", compression]];
  const flags = compression === undefined || compression === "identity" ? 0 : 1;
  return { ...rest, headers: [type, ...encoding, ...headers], body: frame(flags, message) };
}

export function contentType({ protocol, binary }: Form): string {
  const codec = binary ? "proto" : "json";
  return protocol === "connect" ? `application/${codec}` : `application/${protocol}+${codec}`;
}

/** Creates an envelope. `length` may be wrong. */
export function frame(flags: number, data: Uint8Array, length = data.byteLength): Uint8Array {
  const bytes = Buffer.alloc(5 + data.byteLength);
  bytes.writeUInt8(flags, 0);
  bytes.writeUInt32BE(length, 1);
  bytes.set(data, 5);
  return bytes;
}

/** Converts a request to JSON for logs, with all values that are needed to send it again. */
export function printable(request: RawRequest): JsonValue {
  return JSON.parse(JSON.stringify({ ...request, body: Buffer.from(request.body).toString("latin1") }));
}
