import type { TokenStorage } from "./calls/peer-records.ts";
import type { CallKey } from "./calls.ts";
import type { Runtime } from "./runtimes.ts";

export interface Row {
  /** Unique name of the row, such as `fastify-plain` or `service-deno`. */
  readonly key: string;
  readonly title: string;
  readonly runtime: Runtime;
  readonly calls: readonly CallKey[];
  /**
   * The program of the server. For this service, the value is the path of its main file. For a server in Go, the value
   * is the argument that selects the server. For any other peer, the value is the name of a file in `bench/servers/`
   * without the extension.
   */
  readonly entry: string;
  /** Format of the stored records that the server reads. */
  readonly storage: TokenStorage | "service";
  /**
   * Number of the Redis database that the server uses. Releases with different record formats need different databases.
   */
  readonly database: number;
  readonly isPaced: boolean;
}

interface Server extends Pick<Row, "title" | "calls" | "entry"> {
  readonly name: string;
  readonly encrypted: readonly Runtime[];
  readonly plain: readonly Runtime[];
}

/** Kinds of calls that peers support. Each peer supports at least one kind. */
export const READS: readonly CallKey[] = ["grpcGet", "connectGet", "restGet"];
const WRITES: readonly CallKey[] = ["create", "update", "rotate", "resolve"];

const ON_NODE = { encrypted: ["node"], plain: ["node", "node24"] } as const;
const FLOOR = { encrypted: ["node", "deno"], plain: [] } as const;
const IN_GO = { encrypted: ["go"], plain: ["go"] } as const;
const HTTP1 = ["connectGet", "restGet"] as const;

const PEERS: readonly Server[] = [
  { name: "grpcJs", title: "@grpc/grpc-js, ioredis", calls: ["grpcGet"], entry: "grpc-js", ...ON_NODE },
  { name: "fastify", title: "Fastify, ioredis", calls: HTTP1, entry: "fastify", ...ON_NODE },
  { name: "bareHttp2", title: "bare node:http2 (floor)", calls: ["grpcGet"], entry: "bare-http2", ...FLOOR },
  { name: "bareHttp", title: "bare node:http (floor)", calls: HTTP1, entry: "bare-http", ...FLOOR },
  { name: "grpcGo", title: "grpc-go, rueidis", calls: ["grpcGet"], entry: "grpc", ...IN_GO },
  { name: "connectGo", title: "connect-go, rueidis", calls: ["grpcGet", "connectGet"], entry: "connect", ...IN_GO },
  { name: "httpGo", title: "net/http, rueidis", calls: ["restGet"], entry: "rest", ...IN_GO },
];

/** Returns the row of this service. By default, the row is the build of `npm run build`. `changes` replaces fields. */
export function serviceRow(runtime: Runtime, changes: Partial<Row> = {}): Row {
  return {
    key: runtime === "node" ? "service" : `service-${runtime}`,
    title: "**this service**",
    runtime,
    calls: runtime === "node" ? [...READS, ...WRITES] : READS,
    entry: runtime === "deno" ? "src/main.ts" : "dist/main.js",
    storage: "service",
    database: 0,
    isPaced: true,
    ...changes,
  };
}

/** Returns every row whose runtime is installed, in the order of the tables. */
export function allRows(runtimes: readonly Runtime[]): Row[] {
  const adapter = serviceRow("node", {
    key: "adapter",
    title: "connectNodeAdapter, same service",
    calls: ["grpcGet", "connectGet", ...WRITES],
    entry: "adapter",
    isPaced: false,
  });
  const services = (["node", "node24", "deno"] as const).map((runtime) => serviceRow(runtime));
  const peers = PEERS.flatMap((peer) => [
    ...peer.encrypted.map((runtime) => peerRow(peer, runtime, "encrypted")),
    ...peer.plain.map((runtime) => peerRow(peer, runtime, "plain")),
  ]);
  return [...services, adapter, ...peers].filter(({ runtime }) => runtimes.includes(runtime));
}

export function isService({ key, runtime }: Row): boolean {
  return key === serviceRow(runtime).key;
}

function peerRow({ name, title, calls, entry }: Server, runtime: Runtime, storage: TokenStorage): Row {
  const plain = storage === "plain" ? "-plain" : "";
  return {
    key: `${name}${plain}${runtime === "node" || runtime === "go" ? "" : `-${runtime}`}`,
    title: storage === "plain" ? `${title}, no encryption` : title,
    runtime,
    calls,
    entry,
    storage,
    database: 0,
    isPaced: storage === "encrypted" && (runtime === "node" || runtime === "go") && !entry.startsWith("bare"),
  };
}
