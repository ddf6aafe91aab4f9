import { afterAll, beforeAll, describe, inject } from "vitest";
import { type CallHeaders, CLIENTS, type ClientRow, openReference, type ServiceClient } from "./clients.ts";
import { RUNTIMES, startServer, type TestServer } from "./server.ts";

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
 * Runs cases for every runtime, store and client. Each server is started once.
 *
 * @param define registers the cases; the place can be asked for while one runs
 */
export function describeMatrix(define: (place: () => Place, row: ClientRow) => void): void {
  describeServers((server) => {
    describe.each(CLIENTS)("$name", (row) => {
      let place: Place | undefined;
      beforeAll(() => {
        place = placeOf(server(), row.open(server().url));
      });
      afterAll(() => {
        place?.client.close();
        place?.reference.close();
      });
      define(() => opened(place), row);
    });
  });
}

/** Runs cases for every runtime and store, with the reference client alone. */
export function describeServers(define: (server: () => TestServer) => void): void {
  const redisUrl = inject("redisUrl");
  for (const runtime of RUNTIMES) {
    for (const store of ["embedded store", "real Redis"]) {
      const needsRedis = store === "real Redis";
      describe.skipIf(needsRedis && redisUrl === undefined)(`${runtime}, ${store}`, () => {
        let server: TestServer | undefined;
        beforeAll(async () => {
          server = await startServer({ runtime, redisUrl: needsRedis ? redisUrl : undefined });
        });
        afterAll(async () => {
          await server?.stop();
        });
        define(() => opened(server));
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

function opened<T>(value: T | undefined): T {
  if (value === undefined) throw new Error("asked for before it was opened");
  return value;
}
