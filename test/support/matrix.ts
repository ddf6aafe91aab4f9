import { describe } from "vitest";
import { type CallHeaders, CLIENTS, type ClientRow, openReference, type ServiceClient } from "./clients.ts";
import { forSuite, redisUrl, suiteServer } from "./opened.ts";
import { RUNTIMES, type TestServer } from "./server.ts";

/** Where a case of the matrix runs. */
export interface Place {
  readonly server: TestServer;
  readonly client: ServiceClient;
  /** A client that tells of every field, to look at what is stored. */
  readonly reference: ServiceClient;
  /** The credentials of each environment. */
  readonly as: { readonly customer: CallHeaders; readonly testing: CallHeaders; readonly untagged: CallHeaders };
}

let lastId = 0;

/** An id that no other case uses. */
export function newId(): string {
  lastId++;
  return `group ${lastId}/é{x}`;
}

/**
 * The clients that cases are tried with on a store.
 *
 * No store knows by what protocol a call came, and no protocol knows what store is beneath: the domain is between them.
 * Each client is therefore tried on one store, Redis where there is one, and each store with one client of every
 * protocol. With `FULL_MATRIX=1` every client is tried on every store.
 */
export function clientsOn<T>(
  store: "embedded store" | "real Redis",
  clients: readonly T[],
  protocolOf: (client: T) => string,
): readonly T[] {
  if (store === "real Redis" || redisUrl === undefined || process.env["FULL_MATRIX"] === "1") return clients;
  const protocols = clients.map(protocolOf);
  return clients.filter((_, i) => protocols.indexOf(protocols[i] ?? "") === i);
}

/**
 * Runs cases for every runtime, store and client, as `clientsOn` says. Each server is started once.
 *
 * @param define registers the cases; the place is there while one runs
 */
export function describeMatrix(define: (place: Place, row: ClientRow) => void): void {
  describeServers((server, store) => {
    describe.each(clientsOn(store, CLIENTS, ({ protocol }) => protocol))("$name", (row) => {
      const place = forSuite(
        () => placeOf(server, row.open(server.url)),
        ({ client, reference }) => {
          client.close();
          reference.close();
        },
      );
      define(place, row);
    });
  });
}

/** Runs cases for every runtime and store, with the reference client alone. */
export function describeServers(define: (server: TestServer, store: "embedded store" | "real Redis") => void): void {
  for (const runtime of RUNTIMES) {
    for (const store of ["embedded store", "real Redis"] as const) {
      const needsRedis = store === "real Redis";
      describe.skipIf(needsRedis && redisUrl === undefined)(`${runtime}, ${store}`, () => {
        define(suiteServer({ runtime, redisUrl: needsRedis ? redisUrl : undefined }), store);
      });
    }
  }
}

/** What a case needs of a server, with the reference client unless another is given. */
export function placeOf(server: TestServer, client?: ServiceClient): Place {
  const reference = openReference(server.url);
  const bearer = (token: string) => ({ authorization: `Token ${token}` });
  const { customer, testing, untagged } = server.tokens;
  return {
    server,
    client: client ?? reference,
    reference,
    as: { customer: bearer(customer), testing: bearer(testing), untagged: bearer(untagged) },
  };
}
