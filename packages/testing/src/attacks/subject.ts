import type { Certificates } from "../certificates.ts";
import type { HttpRequest } from "../http.ts";
import type { RunningProcess } from "../process.ts";
import type { Place } from "./place.ts";

/** A server process to attack or fuzz. */
export interface SubjectServer extends Pick<RunningProcess, "pid" | "output" | "signal"> {
  readonly url: string;
  /** Value of `Authorization` that authenticates a caller. */
  readonly authorization: string;
  /** Valid calls whose response is 200. */
  readonly calls: { readonly http1: OrdinaryCall; readonly http2: OrdinaryCall };
  /** Kills the server, and stops its Redis and other processes of its own. */
  end(): Promise<void>;
}

interface OrdinaryCall extends Omit<HttpRequest, "agent"> {
  readonly target: string;
}

/** Starts a server with the settings of `collectable` and waits until it listens. Its output must be lines of JSON. */
export type StartSubject<O, S extends SubjectServer = SubjectServer> = (
  place: Place,
  certificates: Certificates,
  options?: O,
) => Promise<S>;
