import { brotliCompressSync, gzipSync } from "node:zlib";
import { createRegistry, type JsonValue, toBinary, toJsonString } from "@bufbuild/protobuf";
import { PlainSchema } from "../gen/talk/v1/plain_pb.ts";
import { TalkService } from "../gen/talk/v1/talk_pb.ts";
import { type Spoken, schemaOf } from "./differential-service.ts";
import type { FieldList, RawRequest } from "./differential-wire.ts";

/** A form that a unary request is written in. */
export interface Form {
  readonly name: string;
  readonly http: 1 | 2;
  readonly protocol: "grpc" | "grpc-web" | "connect";
  readonly binary: boolean;
}

/** Every form that both servers know. */
export const FORMS: readonly Form[] = ([1, 2] as const).flatMap((http) =>
  (["grpc", "grpc-web", "connect"] as const).flatMap((protocol) =>
    [true, false].map((binary) => {
      const name = `${protocol} ${binary ? "binary" : "JSON"} over HTTP/${http}`;
      return { name, http, protocol, binary };
    }),
  ),
);

/** What can be told of a request beside its form and message. */
export interface RequestOptions {
  readonly headers?: FieldList;
  readonly trailers?: FieldList;
  /** How the message is compressed, with the field that says so. */
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

/** What an Any may hold; the servers know of none. */
const registry = createRegistry(PlainSchema);

/** A well-formed request; of the method without side effects that takes such a message, unless options tell another. */
export function requestOf(form: Form, message: Spoken, options: RequestOptions = {}): RawRequest {
  const { compression, rpc = message.$typeName === PlainSchema.typeName ? "Tell" : "Look" } = options;
  const desc = schemaOf(message);
  const plain = form.binary ? toBinary(desc, message) : Buffer.from(toJsonString(desc, message, { registry }));
  const bytes = compression === undefined ? plain : COMPRESS[compression](plain);
  return requestWith(form, bytes, { ...options, rpc });
}

/** A request whose message is these bytes. */
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

/** The content type of a form. */
export function contentType({ protocol, binary }: Form): string {
  const codec = binary ? "proto" : "json";
  return protocol === "connect" ? `application/${codec}` : `application/${protocol}+${codec}`;
}

/** An envelope; `length` may be a lie. */
export function frame(flags: number, data: Uint8Array, length = data.byteLength): Uint8Array {
  const bytes = Buffer.alloc(5 + data.byteLength);
  bytes.writeUInt8(flags, 0);
  bytes.writeUInt32BE(length, 1);
  bytes.set(data, 5);
  return bytes;
}

/** A request for logs: what is needed to send it again. */
export function printable(request: RawRequest): JsonValue {
  return JSON.parse(JSON.stringify({ ...request, body: Buffer.from(request.body).toString("latin1") }));
}
