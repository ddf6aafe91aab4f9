import { forSuite } from "@user-group-service/testing/opened";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { describe, inject } from "vitest";
import { type CallHeaders, CLIENTS, type ClientRow, openReference, type ServiceClient } from "./clients.ts";
import { redisUrl, sharedServer } from "./opened.ts";
import type { TestServer } from "./server.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** The part of the matrix that a run tests: see `isInRun`. */
    matrixShare: "one client a protocol" | "the rest";
  }
}

/** A client, and the protocol that it speaks. */
interface Client {
  readonly name: string;
  readonly protocol: string;
}

const STORES = ["embedded store", "real Redis"] as const;
const MAIN_STORE = redisUrl === undefined ? "embedded store" : "real Redis";

/**
 * Whether this run tests a client on a store. `npm test` tests the first client of each protocol on the main store, which
 * is Redis unless it is not installed. `npm run test:all` adds the other clients on the main store, and the first client
 * of each protocol on the other store: stores and protocols do not depend on each other. `FULL_MATRIX=1` adds the rest.
 */
function isInRun(client: Client, clients: readonly Client[], store: (typeof STORES)[number]): boolean {
  const isFirst = clients.find(({ protocol }) => protocol === client.protocol) === client;
  const isOnMain = store === MAIN_STORE;
  if (inject("matrixShare") !== "the rest") return isFirst && isOnMain;
  return isFirst !== isOnMain || (!isOnMain && process.env["FULL_MATRIX"] === "1");
}

/** Returns the clients that this run tests, for a suite on the main store alone. */
export function clientsOfRun<T extends Client>(clients: readonly T[]): readonly T[] {
  return clients.filter((client) => isInRun(client, clients, MAIN_STORE));
}

/** Runs tests with each client, on a server of each runtime and store. */
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

/** Runs tests that need no particular client on a server of each runtime and store. */
export function describeServers(define: (server: TestServer) => void): void {
  describeClients([{ name: "any client", protocol: "any" }], define);
}

/** A server, and a client that calls it. */
export interface Place {
  readonly server: TestServer;
  readonly client: ServiceClient;
  /** A client that reports every field, to read the stored values. */
  readonly reference: ServiceClient;
  /** The credentials of each environment. */
  readonly as: { readonly customer: CallHeaders; readonly testing: CallHeaders; readonly untagged: CallHeaders };
}

/** Runs tests with each client of UserGroupService. @param define may use the place only while a test runs */
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

/** Adds a reference client and credentials to a server and its client. */
export function placeOf(server: TestServer, client: ServiceClient): Place {
  const bearer = (token: string) => ({ authorization: `Token ${token}` });
  const { customer, testing, untagged } = server.tokens;
  return {
    server,
    client,
    reference: openReference(server.url),
    as: { customer: bearer(customer), testing: bearer(testing), untagged: bearer(untagged) },
  };
}

let lastId = 0;

/** Returns a user group id that no other test uses. */
export function newId(): string {
  lastId++;
  return `group ${lastId}/é{x}`;
}
