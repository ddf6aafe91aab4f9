import { forSuite } from "@user-group-service/testing/opened";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { describe, inject } from "vitest";
import { type CallHeaders, CLIENTS, type ClientRow, openReference, type ServiceClient } from "./clients.ts";
import { redisUrl, sharedServer } from "./opened.ts";
import type { TestServer } from "./server.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** Which of the ways to call the service are tried: see `clientCases`. */
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

const isRest = inject("matrixShare") === "the rest";
/** The store that every client is tried on. */
const MAIN: StoreName = redisUrl === undefined ? "embedded store" : "real Redis";
const STORES: readonly StoreName[] = ["embedded store", "real Redis"];

/** Cases of a file, or undefined where they are not tried on a store. */
type Cases = (store: StoreName) => ((server: TestServer) => void) | undefined;

/** Those of the clients that this run takes on the main store: the first of every protocol, or the others. */
export function clientsOfShare<T extends { readonly protocol: string }>(clients: readonly T[]): readonly T[] {
  const isFirst = ({ protocol }: T, i: number) => clients.findIndex((one) => one.protocol === protocol) === i;
  return clients.filter((client, i) => isFirst(client, i) !== isRest);
}

/**
 * Cases that are tried with every client.
 *
 * No store knows by what protocol a call came, and no protocol knows what store is beneath: the domain is between them.
 * Each client is therefore tried on one store, Redis where there is one, and each store with one client of every
 * protocol. With `FULL_MATRIX=1` every client is tried on every store. `npm test` takes one client of every protocol on
 * one store, `npm run test:all` what that leaves.
 *
 * @param define registers the cases for one of the clients
 */
export function clientCases<T extends { readonly name: string; readonly protocol: string }>(
  clients: readonly T[],
  define: (server: TestServer, client: T) => void,
): Cases {
  const share = clientsOfShare(clients);
  const onOther = process.env["FULL_MATRIX"] === "1" ? clients : clients.filter((client) => !share.includes(client));
  return (store) => {
    const rows = store === MAIN ? share : isRest ? onOther : [];
    if (rows.length === 0) return undefined;
    return (server) => describe.each(rows)("$name", (row) => define(server, row));
  };
}

/** Cases that no protocol matters to: in `npm test` on one store, as `clientCases` are. */
export function serverCases(define: (server: TestServer) => void): Cases {
  return (store) => ((store !== MAIN) === isRest ? define : undefined);
}

/** Runs cases for every runtime and store, all of them on one server. */
export function describePlaces(parts: readonly Cases[]): void {
  for (const runtime of RUNTIMES) {
    for (const store of STORES) {
      const here = parts.flatMap((part) => part(store) ?? []);
      if (here.length === 0) continue;
      const url = store === "real Redis" ? redisUrl : undefined;
      describe.skipIf(store === "real Redis" && url === undefined)(`${runtime}, ${store}`, () => {
        const server = sharedServer({ runtime, redisUrl: url });
        for (const define of here) define(server);
      });
    }
  }
}

/** Runs nothing but cases that no protocol matters to. */
export function describeServers(define: (server: TestServer) => void): void {
  describePlaces([serverCases(define)]);
}

/** Runs nothing but cases of the service, with every client. @param define the place is there while a case runs */
export function describeMatrix(define: (place: Place, row: ClientRow) => void): void {
  const cases = clientCases(CLIENTS, (server, row) => {
    const place = forSuite(
      () => placeOf(server, row.open(server.url)),
      ({ client, reference }) => {
        client.close();
        reference.close();
      },
    );
    define(place, row);
  });
  describePlaces([cases]);
}

/** What a case needs of a server. */
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
