import { createClient, type Transport } from "@connectrpc/connect";
import {
  createConnectTransport,
  createGrpcTransport,
  createGrpcWebTransport,
  type GrpcTransportOptions,
} from "@connectrpc/connect-node";
import type { Runtime } from "@user-group-service/testing/runtime";
import { AdminService } from "../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { ApiEnvironmentTag } from "../../../gen/usergroup/v1/user_group_pb.ts";
import { UserGroupService } from "../../../gen/usergroup/v1/user_group_service_pb.ts";
import { ViewerService } from "../../../gen/usergroup/v1/viewer_service_pb.ts";
import { ADMIN_TOKEN, presenting } from "../../support/admin.ts";
import { newServer } from "../../support/opened.ts";
import type { ServerOptions, TestServer } from "../../support/server.ts";

/** Both environments of a load have the same name but different tags. Both contain groups with the same ids. */
export const ENVIRONMENTS = ["customer", "testing"] as const;

export type EnvironmentId = (typeof ENVIRONMENTS)[number];

/** Deadline of each call, in milliseconds. The timeout of the service for Redis is much shorter. */
const CALLER_MS = 20_000;

type TransportOptions = Pick<GrpcTransportOptions, "baseUrl" | "defaultTimeoutMs">;
type NewTransport = (options: TransportOptions) => Transport;

const KINDS: readonly { readonly name: string; readonly runtime: Runtime; readonly transport: NewTransport }[] = [
  { name: "Node by gRPC", runtime: "node", transport: createGrpcTransport },
  { name: "Node by Connect", runtime: "node", transport: (o) => createConnectTransport({ ...o, httpVersion: "1.1" }) },
  { name: "Deno by gRPC-Web", runtime: "deno", transport: (o) => createGrpcWebTransport({ ...o, httpVersion: "2" }) },
];

/** A server process that a fault can end and start again. */
export interface Worker {
  readonly name: string;
  server(): TestServer;
  clients(environment: EnvironmentId): Clients;
  /** Starts a new server process. The old process must have ended. */
  restart(): Promise<void>;
}

type Clients = ReturnType<typeof clientsOf>;

const TAGS = { customer: ApiEnvironmentTag.CUSTOMER, testing: ApiEnvironmentTag.TESTING } as const;

/** Starts two workers on Node and a worker on Deno, and stops all workers after the test. */
export async function newWorkers(redisUrl: string, minReplicas: number): Promise<readonly Worker[]> {
  const env = { MIN_REPLICAS_ACK: String(minReplicas), REDIS_TIMEOUT: "1s", ADMIN_TOKEN };
  const options: ServerOptions = { redisUrl, env };
  let like: TestServer | undefined;
  const worker = ({ name, runtime, transport }: (typeof KINDS)[number]) =>
    newWorker(name, () => newServer({ ...options, runtime, ...(like && { like }) }), transport);
  const [first, ...others] = KINDS as [(typeof KINDS)[number]];
  const started = await worker(first);
  like = started.server();
  return [started, ...(await Promise.all(others.map(worker)))];
}

async function newWorker(name: string, start: () => Promise<TestServer>, transport: NewTransport): Promise<Worker> {
  let server = await start();
  const ask = () => new Map(ENVIRONMENTS.map((id) => [id, clientsOf(transport, server, id)]));
  let clients = ask();
  return {
    name,
    server: () => server,
    clients: (environment) => clients.get(environment) as Clients,
    restart: async () => {
      server = await start();
      clients = ask();
    },
  };
}

function clientsOf(newTransport: NewTransport, { url, tokens, environment }: TestServer, id: EnvironmentId) {
  const transport = newTransport({ baseUrl: url, defaultTimeoutMs: CALLER_MS });
  const own = presenting(transport, tokens[id]);
  return {
    groups: createClient(UserGroupService, own),
    viewers: createClient(ViewerService, own),
    admin: createClient(AdminService, presenting(transport, ADMIN_TOKEN)),
    environment: { name: environment, tag: TAGS[id] },
  };
}
