import type { ServerHttp2Session, ServerHttp2Stream } from "node:http2";
import { privateValue } from "./private-value.ts";

/** The methods of a `Map` that node:http2 calls. */
interface Streams {
  readonly size: number;
  get(id: number): ServerHttp2Stream | undefined;
  set(id: number, stream: ServerHttp2Stream): unknown;
  delete(id: number): boolean;
  forEach(callback: (stream: ServerHttp2Stream) => void): void;
}

/** The open streams of a session. Two arrays are fast, because a session has at most `MAX_HTTP2_STREAMS` streams. */
class OpenStreams implements Streams {
  readonly #ids: number[] = [];
  readonly #streams: ServerHttp2Stream[] = [];

  get size(): number {
    return this.#ids.length;
  }

  get(id: number): ServerHttp2Stream | undefined {
    const index = this.#ids.indexOf(id);
    return index < 0 ? undefined : this.#streams[index];
  }

  set(id: number, stream: ServerHttp2Stream): void {
    this.#ids.push(id);
    this.#streams.push(stream);
  }

  delete(id: number): boolean {
    const index = this.#ids.indexOf(id);
    if (index < 0) return false;
    // The last stream takes the place of the deleted stream. `splice` would create garbage.
    this.#ids[index] = this.#ids.at(-1) as number;
    this.#streams[index] = this.#streams.at(-1) as ServerHttp2Stream;
    this.#ids.pop();
    this.#streams.pop();
    return true;
  }

  /** The callback may delete streams. */
  forEach(callback: (stream: ServerHttp2Stream) => void): void {
    for (const stream of [...this.#streams]) callback(stream);
  }
}

/**
 * Replaces the `Map` in which node:http2 keeps the open streams of a new session. This `Map` makes garbage collection
 * expensive (measured in docs/decisions/0012-overload.md).
 *
 * V8 copies a `Map` to a new table after a few insertions and deletions. The old table references the new table and the
 * streams that were open at that time. When one table has reached the old generation, each later table reaches the old
 * generation as well, together with its streams.
 *
 * @param session a session that has not opened a stream
 * @returns the open streams of the session; undefined if this version of the runtime keeps the streams differently
 */
export function replaceStreamMap(session: ServerHttp2Session): { readonly size: number } | undefined {
  const state = privateValue(session, "state") as { streams?: Streams } | undefined;
  if (typeof state?.streams?.get !== "function") return undefined;
  state.streams = new OpenStreams();
  return state.streams;
}
