import { once } from "node:events";
import { createServer, type IncomingHttpHeaders, type RequestListener } from "node:http";
import { createServer as createTlsServer, type ServerOptions } from "node:https";
import { type AddressInfo, createServer as createTcpServer, type Socket } from "node:net";
import { BinaryReader } from "@bufbuild/protobuf/wire";
import { listen } from "@user-group-service/testing/wait";

export interface CollectedSpan {
  readonly traceId: string;
  readonly spanId: string;
  /** Empty if the span has no parent. */
  readonly parentSpanId: string;
  readonly traceState: string;
  readonly name: string;
  /** 2 for a server span, 3 for a client span. */
  readonly kind: number;
  /** Start and end in nanoseconds since 1970. */
  readonly start: bigint;
  readonly end: bigint;
  readonly attributes: { readonly [name: string]: string | number };
  /** 0 if unset, 2 for an error. */
  readonly status: number;
  readonly resource: { readonly [name: string]: string | number };
}

export interface CollectorAnswer {
  readonly status: number;
  readonly headers?: { readonly [name: string]: string };
}

/** A collector of traces that accepts OTLP over HTTP in protobuf. */
export interface TraceCollector {
  /** Value for `OTEL_EXPORTER_OTLP_ENDPOINT`. */
  readonly url: string;
  /** Returns the accepted spans in the order of their arrival. */
  spans(): readonly CollectedSpan[];
  bytes(): Buffer;
  readonly requests: { readonly path: string; readonly headers: IncomingHttpHeaders; readonly status: number }[];
  useTls(tls: ServerOptions): void;
  close(): void;
}

/**
 * @param answerOf receives the number of a request, from 1, and returns the response. Default: accepts all requests
 * @param port port of the collector. If 0, the collector chooses a free port
 * @param tls certificate and key. If undefined, the collector does not use TLS
 */
export async function openTraceCollector(
  answerOf: (request: number) => CollectorAnswer | Promise<CollectorAnswer> = () => ({ status: 200 }),
  port = 0,
  tls?: ServerOptions,
): Promise<TraceCollector> {
  const bodies: Buffer[] = [];
  const spans: CollectedSpan[] = [];
  const requests: { path: string; headers: IncomingHttpHeaders; status: number }[] = [];
  let count = 0;
  const listener: RequestListener = async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks);
    bodies.push(body);
    const { status, headers = {} } = await answerOf(++count);
    requests.push({ path: `${request.method} ${request.url}`, headers: request.headers, status });
    if (status === 200) spans.push(...spansIn(body));
    response.writeHead(status, headers).end();
  };
  const tlsServer = tls && createTlsServer(tls, listener);
  const server = tlsServer ?? createServer(listener);
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `${tls ? "https" : "http"}://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans: () => spans,
    bytes: () => Buffer.concat(bodies),
    requests,
    useTls: (next) => {
      tlsServer?.setSecureContext(next);
      server.closeAllConnections();
    },
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** Opens a collector that never finishes a response. It responds with `head`, followed by one byte every 100 ms. */
export async function openTricklingCollector(head: string) {
  const open = new Set<Socket>();
  const server = createTcpServer((socket) => {
    open.add(socket);
    socket.on("error", () => {}).on("close", () => open.delete(socket));
    socket.once("data", () => {
      socket.write(head);
      const timer = setInterval(() => socket.write("x"), 100);
      socket.once("close", () => clearInterval(timer));
    });
  });
  const port = await listen(server);
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    connections: () => open.size,
    close: async () => {
      for (const socket of open) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

type Fields = ReadonlyMap<number, readonly (Uint8Array | bigint | number)[]>;

function fieldsOf(bytes: Uint8Array): Fields {
  const fields = new Map<number, (Uint8Array | bigint | number)[]>();
  const reader = new BinaryReader(bytes);
  while (reader.pos < reader.len) {
    const [number, type] = reader.tag();
    const value =
      type === 0
        ? Number(reader.int64())
        : type === 1
          ? BigInt(reader.fixed64())
          : type === 2
            ? reader.bytes()
            : reader.fixed32();
    fields.set(number, [...(fields.get(number) ?? []), value]);
  }
  return fields;
}

const messages = (fields: Fields, number: number) =>
  (fields.get(number) ?? []).map((each) => fieldsOf(each as Uint8Array));
const bytesOf = (fields: Fields, number: number) => Buffer.from((fields.get(number)?.[0] as Uint8Array) ?? []);
const textOf = (fields: Fields, number: number) => bytesOf(fields, number).toString();

/**
 * Returns an object with the attributes that a field of a message contains. In an attribute, field 1 is the name, and
 * field 2 is the value. A value has a string in field 1, or an integer in field 3.
 */
function attributesOf(fields: Fields, number: number) {
  const pairs = messages(fields, number).map((attribute) => {
    const [value] = messages(attribute, 2);
    const whole = value?.get(3)?.[0];
    return [textOf(attribute, 1), whole === undefined ? textOf(value as Fields, 1) : Number(whole)] as const;
  });
  return Object.fromEntries(pairs);
}

function spansIn(body: Uint8Array): CollectedSpan[] {
  return messages(fieldsOf(body), 1).flatMap((ofResource) => {
    const [resource] = messages(ofResource, 1);
    return messages(ofResource, 2).flatMap((ofScope) =>
      messages(ofScope, 2).map((span) => ({
        traceId: bytesOf(span, 1).toString("hex"),
        spanId: bytesOf(span, 2).toString("hex"),
        traceState: textOf(span, 3),
        parentSpanId: bytesOf(span, 4).toString("hex"),
        name: textOf(span, 5),
        kind: Number(span.get(6)?.[0] ?? 0),
        start: BigInt(span.get(7)?.[0] as bigint),
        end: BigInt(span.get(8)?.[0] as bigint),
        attributes: attributesOf(span, 9),
        status: Number(messages(span, 15)[0]?.get(3)?.[0] ?? 0),
        resource: resource ? attributesOf(resource, 1) : {},
      })),
    );
  });
}
