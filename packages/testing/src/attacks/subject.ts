import type { Certificates } from "../certificates.ts";
import type { HttpRequest } from "../http.ts";
import type { RunningProcess } from "../process.ts";
import type { Place } from "./place.ts";

/** A server that a test attacks. */
export interface SubjectServer extends Pick<RunningProcess, "pid" | "output" | "signal"> {
  readonly url: string;
  /** Value of the `Authorization` header of a valid caller. */
  readonly authorization: string;
  /** One valid call per HTTP version. The server answers each call with status 200. */
  readonly calls: { readonly http1: OrdinaryCall; readonly http2: OrdinaryCall };
  /** Kills the server, and stops the processes that the server uses, such as Redis. */
  end(): Promise<void>;
}

interface OrdinaryCall extends Omit<HttpRequest, "agent"> {
  readonly target: string;
}

/**
 * Starts a server with the settings of `collectable` and waits until it listens. The server must log one JSON object
 * per line.
 */
export type StartSubject<O, S extends SubjectServer = SubjectServer> = (
  place: Place,
  certificates: Certificates,
  options?: O,
) => Promise<S>;
