import { describe, inject } from "vitest";
import { type CallHeaders, CLIENTS, type ClientRow, openReference, type ServiceClient } from "./clients.ts";
import { forSuite, redisUrl, suiteServer } from "./opened.ts";
import { RUNTIMES, type ServerOptions, type TestServer } from "./server.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** Which of the ways to call the service are tried: see `describeClients`. */
    matrixShare: "one client a protocol" | "the rest";
  }
}

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

/** What a server keeps its data in. */
type StoreName = "embedded store" | "real Redis";

/** How the servers of a suite start. */
type Settings = Pick<ServerOptions, "env">;

const isRest = inject("matrixShare") === "the rest";
/** The store that every client is tried on. */
const MAIN: StoreName = redisUrl === undefined ? "embedded store" : "real Redis";
const STORES: readonly StoreName[] = ["embedded store", "real Redis"];

/**
 * Runs cases for every runtime, store and client, each server started once.
 *
 * No store knows by what protocol a call came, and no protocol knows what store is beneath: the domain is between them.
 * Each client is therefore tried on one store, Redis where there is one, and each store with one client of every
 * protocol. With `FULL_MATRIX=1` every client is tried on every store. `npm test` takes one client of every protocol on
 * one store, `npm run test:all` what that leaves.
 *
 * @param define registers the cases for one of the clients
 */
export function describeClients<T extends { readonly name: string; readonly protocol: string }>(
  clients: readonly T[],
  define: (server: TestServer, client: T) => void,
  settings: Settings = {},
): void {
  const first = clients.filter(({ protocol }, i) => clients.findIndex((one) => one.protocol === protocol) === i);
  const others = clients.filter((client) => !first.includes(client));
  const onOther = process.env["FULL_MATRIX"] === "1" ? clients : first;
  describePlaces(
    (store) => (store !== MAIN ? isRest && onOther : isRest ? others : first) || [],
    (server, rows) => describe.each(rows)("$name", (row) => define(server, row)),
    settings,
  );
}

/** Runs cases that no protocol matters to, for every runtime and store: in `npm test` on one, as `describeClients` does. */
export function describeServers(define: (server: TestServer) => void, settings: Settings = {}): void {
  describePlaces((store) => ((store !== MAIN) === isRest ? [define] : []), define, settings);
}

/** Runs the cases of the service for every runtime, store and client. @param define the place is there while a case runs */
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

function describePlaces<T>(
  rowsOn: (store: StoreName) => readonly T[],
  define: (server: TestServer, rows: readonly T[]) => void,
  settings: Settings,
): void {
  for (const runtime of RUNTIMES) {
    for (const store of STORES) {
      const rows = rowsOn(store);
      if (rows.length === 0) continue;
      const url = store === "real Redis" ? redisUrl : undefined;
      describe.skipIf(store === "real Redis" && url === undefined)(`${runtime}, ${store}`, () => {
        define(suiteServer({ ...settings, runtime, redisUrl: url }), rows);
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
