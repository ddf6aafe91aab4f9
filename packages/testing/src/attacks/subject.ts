import type { Certificates } from "../certificates.ts";
import type { HttpRequest } from "../http.ts";
import type { RunningProcess } from "../process.ts";
import type { Place } from "./place.ts";

/** A server in a process of its own, which is attacked or fuzzed. */
export interface SubjectServer extends Pick<RunningProcess, "pid" | "output" | "signal"> {
  readonly url: string;
  /** The value of `Authorization` that lets a caller in. */
  readonly authorization: string;
  /** What an ordinary caller asks, and is answered by 200. */
  readonly calls: { readonly http1: OrdinaryCall; readonly http2: OrdinaryCall };
  /** Ends it by force, and what belongs to it alone. */
  end(): Promise<void>;
}

/** A call over one version of HTTP. */
interface OrdinaryCall extends Omit<HttpRequest, "agent"> {
  readonly target: string;
}

/**
 * Starts what is attacked or fuzzed, and waits until it listens. It is started as `collectable` says, and what it writes are
 * lines of JSON.
 */
export type StartSubject<O, S extends SubjectServer = SubjectServer> = (
  place: Place,
  certificates: Certificates,
  options?: O,
) => Promise<S>;
