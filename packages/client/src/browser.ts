/** Viewer sessions in a page. This file imports nothing, and runs in all current browsers. */

/** After this fraction of the lifetime of a session, the source requests the next session. */
const REFRESH_AT = 0.8;

/** Maximum lifetime of a session, in seconds. */
const MAX_LIFE_S = 3600;

/**
 * The pause after a failure is random. After the first failure, the maximum pause is twice this value, in milliseconds.
 * After each further failure, the maximum doubles, up to `MAX_PAUSE_MS`.
 */
const FIRST_PAUSE_MS = 1000;
const MAX_PAUSE_MS = 30_000;

/** Options of `viewerSessionSource`. */
export interface ViewerSessionOptions {
  /**
   * Requests a session from the back end of the page. Example: `(init) => fetch("/viewer-session", init)`. The back end
   * creates a new session for the person who is logged in. The promise resolves with the `Response` of the back end.
   * The body of the response is a `ViewerSessionAnswer` in JSON. The promise may also resolve with a
   * `ViewerSessionAnswer`. Pass `init` to the request, because `init` forbids caching and contains the signal that
   * aborts the request.
   */
  readonly fetch: (init: ViewerSessionRequest) => Promise<Response | ViewerSessionAnswer>;
  /** Time limit of `fetch`, in milliseconds. Default: 10,000. */
  readonly timeoutMs?: number;
  /** Called with the new `state` whenever the state changes. */
  readonly onChange?: (state: ViewerSessionState) => void;
}

/** Argument of `fetch`. */
export interface ViewerSessionRequest {
  readonly signal: AbortSignal;
  readonly cache: "no-store";
}

/**
 * The response of the back end. The back end may send the whole response of CreateViewerSession, or only the field
 * `session` of that response.
 */
export interface ViewerSessionAnswer {
  readonly session: string;
}

/**
 * State of a source.
 *
 * - `loading`: the source waits for the first session.
 * - `ready`: the source has a valid session.
 * - `stale`: the source has a valid session, but the last renewal failed. The source tries again until the session
 *   expires.
 * - `failed`: the source has no valid session, and the last attempt failed. The source tries again after a pause. If
 *   the back end answered 401 or 403, the source tries again only if the page calls `get` or `replace`, becomes
 *   visible, or is online again.
 * - `disposed`: `dispose` was called.
 */
export interface ViewerSessionState {
  readonly status: "loading" | "ready" | "stale" | "failed" | "disposed";
  /** The session. Undefined if the source has no valid session. */
  readonly session: string | undefined;
  /** Expiry time of the session, by the clock of the browser. Undefined if the source has no valid session. */
  readonly expireTime: Date | undefined;
  /**
   * The error of the last attempt to get a session. Undefined if this attempt succeeded, or if no attempt has ended
   * yet.
   */
  readonly error: ViewerSessionUnavailable | undefined;
}

/** The back end returned no valid session. */
export class ViewerSessionUnavailable extends Error {
  override readonly name = "ViewerSessionUnavailable";
  /**
   * HTTP status of the response. Undefined if the back end did not respond, or if the response is JSON that contains no
   * valid session.
   */
  readonly status: number | undefined;
  constructor(message: string, options: { readonly status?: number; readonly cause?: unknown } = {}) {
    super(message, { cause: options.cause });
    this.status = options.status;
  }
}

/** A source of viewer sessions for a page. */
export interface ViewerSessionSource {
  readonly state: ViewerSessionState;
  /**
   * Returns the session for a request. Waits only if the source has no valid session.
   *
   * @throws ViewerSessionUnavailable if the back end returns no valid session
   */
  get(): Promise<string>;
  /**
   * Returns another session. Call this method if a server has rejected a session with 401. Concurrent calls share one
   * request.
   *
   * @param refusedSession the rejected session. The source does not return this session again. If the source already
   *   has a newer session, the source returns the newer session and sends no request
   * @throws ViewerSessionUnavailable if the back end returns no valid session
   */
  replace(refusedSession?: string): Promise<string>;
  /** Stops timers, listeners and the request in flight. After this call, `get` and `replace` fail. */
  dispose(): void;
}

interface Held {
  readonly session: string;
  /**
   * Time of the request by the wall clock and by the monotonic clock, in milliseconds. Neither clock is reliable alone:
   * a user can set back the wall clock, and the monotonic clock can stop while the machine sleeps.
   */
  readonly requested: { readonly wall: number; readonly running: number };
  readonly lifeMs: number;
}

/**
 * Creates a source of viewer sessions for a page. The source requests the first session immediately. The source renews
 * the session after 80 % of the lifetime. If the page is hidden at that time, the browser may delay the renewal. If the
 * renewal fails, the source keeps the session until the session expires. The source sends one request at a time.
 */
export function viewerSessionSource(options: ViewerSessionOptions): ViewerSessionSource {
  return new Source(options);
}

class Source implements ViewerSessionSource {
  readonly #options: ViewerSessionOptions;
  /** `dispose` aborts this controller. The signal of the controller removes the listeners. */
  readonly #disposal = new AbortController();
  #held: Held | undefined;
  #last: string | undefined;
  #error: ViewerSessionUnavailable | undefined;
  #failures = 0;
  #inFlight: Promise<string> | undefined;
  #abort: AbortController | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #reported: ViewerSessionState | undefined;

  constructor(options: ViewerSessionOptions) {
    this.#options = options;
    const { signal } = this.#disposal;
    document.addEventListener("visibilitychange", this.#onVisible, { signal });
    // Browsers send `pageshow` when they show a cached page again, and `online` when the network is back.
    for (const type of ["pageshow", "online"]) addEventListener(type, this.#onVisible, { signal });
    this.#refreshQuietly();
  }

  get state(): ViewerSessionState {
    const held = this.#current();
    const expireTime = held && new Date(held.requested.wall + held.lifeMs);
    return { status: this.#status(held), session: held?.session, expireTime, error: this.#error };
  }

  async get(): Promise<string> {
    return this.#current()?.session ?? (await this.#refresh());
  }

  async replace(refusedSession?: string): Promise<string> {
    const held = this.#current();
    if (held && refusedSession !== undefined && held.session !== refusedSession) return held.session;
    // Drop the rejected session, even if the next request fails and the source then has no session.
    this.#held = undefined;
    this.#tell();
    return await this.#refresh();
  }

  dispose(): void {
    const { signal } = this.#disposal;
    if (signal.aborted) return;
    this.#disposal.abort(new ViewerSessionUnavailable("the source of viewer sessions was disposed of"));
    clearTimeout(this.#timer);
    this.#held = undefined;
    this.#abort?.abort(signal.reason);
    this.#tell();
  }

  #status(held: Held | undefined): ViewerSessionState["status"] {
    if (this.#disposal.signal.aborted) return "disposed";
    if (held) return this.#error ? "stale" : "ready";
    return this.#error ? "failed" : "loading";
  }

  /** Returns the stored session. Returns undefined if no session is stored, or if the session has expired. */
  #current(): Held | undefined {
    return this.#held && age(this.#held) < this.#held.lifeMs ? this.#held : undefined;
  }

  /**
   * If the page is visible, requests a session in three cases: the source has no valid session, the last attempt
   * failed, or the renewal is due. The renewal can be overdue, because its timer can stop while the machine sleeps or
   * the page is hidden.
   */
  readonly #onVisible = () => {
    if (document.visibilityState !== "visible") return;
    const held = this.#current();
    if (!held || this.#error || age(held) >= REFRESH_AT * held.lifeMs) this.#refreshQuietly();
  };

  #refreshQuietly(): void {
    // Ignore the error here, because `state` reports the error.
    this.#refresh().catch(() => {});
  }

  #refresh(): Promise<string> {
    const { signal } = this.#disposal;
    if (signal.aborted) return Promise.reject(signal.reason);
    clearTimeout(this.#timer);
    this.#inFlight ??= this.#request().finally(() => {
      this.#inFlight = undefined;
      this.#abort = undefined;
      if (signal.aborted) return;
      this.#wait();
      this.#tell();
    });
    return this.#inFlight;
  }

  async #request(): Promise<string> {
    const { fetch, timeoutMs = 10_000 } = this.#options;
    this.#abort = new AbortController();
    const { signal } = this.#abort;
    const late = new ViewerSessionUnavailable(`the back end returned no viewer session within ${timeoutMs} ms`);
    const timer = setTimeout(() => this.#abort?.abort(late), timeoutMs);
    const requested = { wall: Date.now(), running: performance.now() };
    try {
      const { session, time } = await until(signal, () => read(fetch({ signal, cache: "no-store" })));
      const lifeMs = lifeOf(session, time);
      if (session === this.#last)
        throw new ViewerSessionUnavailable(
          "the back end returned the same viewer session again: create a new session for each request, and forbid caching",
        );
      this.#held = { session, requested, lifeMs };
      this.#last = session;
      this.#error = undefined;
      this.#failures = 0;
      return session;
    } catch (error) {
      this.#failures += 1;
      this.#error =
        error instanceof ViewerSessionUnavailable
          ? error
          : new ViewerSessionUnavailable("the request for a viewer session failed", { cause: error });
      throw this.#error;
    } finally {
      clearTimeout(timer);
    }
  }

  /** Sets a timer for the next request, or for the expiry of the session if the session expires first. */
  #wait(): void {
    const held = this.#current();
    const leftMs = held ? held.lifeMs - age(held) : Number.POSITIVE_INFINITY;
    let pauseMs: number;
    if (!this.#error) pauseMs = held ? REFRESH_AT * held.lifeMs - age(held) : 0;
    else if (this.#error.status === 401 || this.#error.status === 403) pauseMs = Number.POSITIVE_INFINITY;
    else pauseMs = Math.random() * Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** this.#failures);
    const isEnd = leftMs <= pauseMs;
    const ms = Math.min(pauseMs, leftMs);
    if (ms === Number.POSITIVE_INFINITY) return;
    this.#timer = setTimeout(
      () => {
        if (!isEnd) return this.#refreshQuietly();
        this.#wait();
        this.#tell();
      },
      Math.max(0, ms),
    );
  }

  #tell(): void {
    const { state } = this;
    const reported = this.#reported;
    if (reported?.status === state.status && reported.session === state.session && reported.error === state.error)
      return;
    this.#reported = state;
    try {
      this.#options.onChange?.(state);
    } catch (error) {
      reportError(error);
    }
  }
}

/**
 * Returns the age of a session in milliseconds. If the wall clock and the monotonic clock give different ages, returns
 * the higher age.
 */
function age({ requested }: Held): number {
  return Math.max(Date.now() - requested.wall, performance.now() - requested.running);
}

/**
 * Resolves with the result of the action. If the signal is aborted first, rejects immediately, even if the action
 * ignores the signal.
 */
function until<T>(signal: AbortSignal, act: () => Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
    act().then(resolve, reject);
  });
}

/** @throws ViewerSessionUnavailable if the response of the back end has no session */
async function read(
  answering: Promise<Response | ViewerSessionAnswer>,
): Promise<{ readonly session: string; readonly time: number }> {
  let answer: unknown = await answering;
  let time = Number.NaN;
  if (answer instanceof Response) {
    const { ok, status, headers } = answer;
    time = Date.parse(headers.get("date") ?? "");
    if (!ok) throw new ViewerSessionUnavailable(`the back end returned no viewer session: HTTP ${status}`, { status });
    answer = await answer.json().catch((cause: unknown) => {
      throw new ViewerSessionUnavailable("the back end returned no JSON with a viewer session", { status, cause });
    });
  }
  const { session } = Object(answer) as { session?: unknown };
  if (typeof session === "string") return { session, time };
  const hint = 'its JSON must be { "session": ... }; if it is {}, the back end did not await createViewerSession';
  throw new ViewerSessionUnavailable(`the back end returned no viewer session: ${hint}`);
}

/**
 * Returns the lifetime of a session in milliseconds. Does not use the clock of the browser, because this clock may be
 * wrong.
 *
 * @param time the `Date` header of the response as milliseconds since 1970, or NaN if the response has no valid `Date`
 * @throws ViewerSessionUnavailable if `session` is not a viewer session, has expired, or lasts more than an hour
 */
function lifeOf(session: string, time: number): number {
  let life = 0;
  let end = 0;
  try {
    const payload = (session.split(".")[1] ?? "").replaceAll("-", "+").replaceAll("_", "/");
    // `atob` breaks non-ASCII characters, but this function reads only the times.
    const { iat, exp } = JSON.parse(atob(payload)) as { iat: number; exp: number };
    [life, end] = [exp - iat, exp];
  } catch {
    // Not a JWT.
  }
  if (!(life > 0)) throw new ViewerSessionUnavailable("the session that the back end returned is not a viewer session");
  if (life > MAX_LIFE_S)
    throw new ViewerSessionUnavailable(
      `the back end returned a session that lasts ${life} s, more than ${MAX_LIFE_S} s: exp and iat must be in seconds`,
    );
  if (end * 1000 <= time)
    throw new ViewerSessionUnavailable(
      "the back end returned an expired viewer session: create a new session for each request, and forbid caching",
    );
  return life * 1000;
}
