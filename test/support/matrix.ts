import { forSuite } from "@user-group-service/testing/opened";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { describe, inject } from "vitest";
import { bearer } from "./admin.ts";
import { type CallHeaders, CLIENTS, type ClientRow, openReference, type ServiceClient } from "./clients.ts";
import { redisUrl, sharedServer } from "./opened.ts";
import type { TestServer } from "./server.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** The part of the matrix that this run tests. For the parts, see `isInRun`. */
    matrixShare: "one client a protocol" | "the rest";
  }
}

interface Client {
  readonly name: string;
  readonly protocol: string;
}

const STORES = ["embedded store", "real Redis"] as const;
const MAIN_STORE = redisUrl === undefined ? "embedded store" : "real Redis";

/**
 * Returns whether this run tests a client on a store. The main store is Redis, or the embedded store if Redis is not
 * installed. `npm test` tests the first client of each protocol on the main store. `npm run test:all` tests all clients
 * on the main store, but only the first client of each protocol on the other store. If the environment variable
 * FULL_MATRIX is 1, `npm run test:all` tests all clients on both stores. By default, the first client of each protocol
 * suffices for the other store, because the behaviour of a client does not depend on the store.
 */
function isInRun(client: Client, clients: readonly Client[], store: (typeof STORES)[number]): boolean {
  const isFirst = clients.find(({ protocol }) => protocol === client.protocol) === client;
  const isOnMain = store === MAIN_STORE;
  if (inject("matrixShare") !== "the rest") return isFirst && isOnMain;
  return isFirst !== isOnMain || (!isOnMain && process.env["FULL_MATRIX"] === "1");
}

/** Returns the clients that this run tests on the main store. */
export function clientsOfRun<T extends Client>(clients: readonly T[]): readonly T[] {
  return clients.filter((client) => isInRun(client, clients, MAIN_STORE));
}

/** Defines tests for each client on a server of each runtime and store. */
export function describeClients<T extends Client>(
  clients: readonly T[],
  define: (server: TestServer, client: T) => void,
): void {
  for (const runtime of RUNTIMES) {
    for (const store of STORES) {
      const rows = clients.filter((client) => isInRun(client, clients, store));
      const url = store === "real Redis" ? redisUrl : undefined;
      if (rows.length === 0 || (store === "real Redis" && url === undefined)) continue;
      describe(`${runtime}, ${store}`, () => {
        const server = sharedServer({ runtime, redisUrl: url });
        describe.each(rows)("$name", (client) => define(server, client));
      });
    }
  }
}

/**
 * Defines tests for a server of each runtime and store. The tests do not depend on the client, so they run only once
 * per server.
 */
export function describeServers(define: (server: TestServer) => void): void {
  describeClients([{ name: "any client", protocol: "any" }], define);
}

export interface Place {
  readonly server: TestServer;
  readonly client: ServiceClient;
  /** The test reads the stored values with this client, because its responses contain every field. */
  readonly reference: ServiceClient;
  readonly as: { readonly customer: CallHeaders; readonly testing: CallHeaders; readonly untagged: CallHeaders };
}

/**
 * Defines tests for each client of UserGroupService.
 *
 * @param define defines the tests of a client. `place` can be used only inside a test, because the server starts
 * after the tests are defined
 */
export function describeMatrix(define: (place: Place, row: ClientRow) => void): void {
  describeClients(CLIENTS, (server, row) => {
    const place = forSuite(
      () => placeOf(server, row.open(server.url)),
      ({ client, reference }) => {
        client.close();
        reference.close();
      },
    );
    define(place, row);
  });
}

export function placeOf(server: TestServer, client: ServiceClient): Place {
  const { customer, testing, untagged } = server.tokens;
  return {
    server,
    client,
    reference: openReference(server.url),
    as: { customer: bearer(customer), testing: bearer(testing), untagged: bearer(untagged) },
  };
}

let lastId = 0;

export function newId(): string {
  lastId++;
  return `group ${lastId}/é{x}`;
}
