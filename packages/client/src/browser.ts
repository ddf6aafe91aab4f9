/** Viewer sessions in a page. This file imports nothing, and runs in any current browser. */

/** The share of a session's life after which the next one is requested. */
const REFRESH_AT = 0.8;

/** The longest that any session lasts, in seconds. */
const MAX_LIFE_S = 3600;

/** The longest pause after the first failed refresh, and after many, in milliseconds. */
const FIRST_PAUSE_MS = 1000;
const MAX_PAUSE_MS = 30_000;

/** How a page obtains viewer sessions. */
export interface ViewerSessionOptions {
  /**
   * Asks the page's own back end for a session, such as `(init) => fetch("/viewer-session", init)`. The back end makes
   * a new one for whoever is logged in. Resolves with the response, whose JSON has the session as `session`, or with
   * such an object. `init` has `cache: "no-store"`, and a signal that aborts the request.
   */
  readonly fetch: (init: ViewerSessionRequest) => Promise<Response | ViewerSessionAnswer>;
  /** How long `fetch` may take, in milliseconds. Default: 10,000. */
  readonly timeoutMs?: number;
  /** Called with every change of `state`. */
  readonly onChange?: (state: ViewerSessionState) => void;
}

/** What `fetch` is called with. */
export interface ViewerSessionRequest {
  readonly signal: AbortSignal;
  readonly cache: "no-store";
}

/** The answer of the back end: that of `CreateViewerSession`, or a part of it. */
export interface ViewerSessionAnswer {
  readonly session: string;
}

/**
 * Whether a page has a session.
 *
 * - `loading`: there is no session yet.
 * - `ready`: there is one.
 * - `stale`: there is one, but refreshing it failed. Refreshing is tried again until the session ends.
 * - `failed`: there is none, because none could be obtained, or the last one ended. It is tried again, unless the back
 * end refused it.
 * - `disposed`: the source was disposed of.
 */
export interface ViewerSessionState {
  readonly status: "loading" | "ready" | "stale" | "failed" | "disposed";
  /** The session, while it lasts. */
  readonly session: string | undefined;
  /** When it ends, by the clock of the browser. */
  readonly expireTime: Date | undefined;
  /** Why the last attempt failed; undefined once one succeeds. */
  readonly error: ViewerSessionUnavailable | undefined;
}

/** No session could be obtained. */
export class ViewerSessionUnavailable extends Error {
  override readonly name = "ViewerSessionUnavailable";
  /** The status that the back end answered with; undefined when it did not answer. 401 and 403 end further attempts. */
  readonly status: number | undefined;
  constructor(message: string, options: { readonly status?: number; readonly cause?: unknown } = {}) {
    super(message, { cause: options.cause });
    this.status = options.status;
  }
}

/** A source of viewer sessions for a page. */
export interface ViewerSessionSource {
  /** The present state. */
  readonly state: ViewerSessionState;
  /**
   * The session to send with a request. Waits only while there is none.
   *
   * @throws ViewerSessionUnavailable when there is none, and none can be obtained
   */
  get(): Promise<string>;
  /**
   * A new session, for one that was refused (401) before its end. Calls at the same time make one request.
   *
   * @param refusedSession the session that was refused; if there is a newer one already, that one is returned
   * @throws ViewerSessionUnavailable when none can be obtained; the refused one is never returned again
   */
  replace(refusedSession?: string): Promise<string>;
  /** Ends timers, listeners and the request under way. Further calls are refused. */
  dispose(): void;
}

/** A session that the page has. */
interface Held {
  readonly session: string;
  /** When it was requested, by both clocks, in milliseconds. */
  readonly asked: Moment;
  readonly lifeMs: number;
}

/**
 * A time by two clocks, in milliseconds. A person may set back the wall clock, and the running one may stand still
 * while the machine sleeps.
 */
interface Moment {
  readonly wall: number;
  readonly running: number;
}

/**
 * Makes a source of viewer sessions for a page. It requests a session at once, and the next one when four fifths of the
 * session's life are over, or when the page becomes visible after that. It keeps the present one while that fails. One
 * request is under way at a time.
 */
export function viewerSessionSource(options: ViewerSessionOptions): ViewerSessionSource {
  return new Source(options);
}

class Source implements ViewerSessionSource {
  readonly #options: ViewerSessionOptions;
  #held: Held | undefined;
  /** The last session that the back end gave. */
  #last: string | undefined;
  #error: ViewerSessionUnavailable | undefined;
  #failures = 0;
  #isDisposed = false;
  #underWay: Promise<string> | undefined;
  #abort: AbortController | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #told: ViewerSessionState | undefined;

  constructor(options: ViewerSessionOptions) {
    this.#options = options;
    document.addEventListener("visibilitychange", this.#onVisible);
    // A page that the browser kept is shown again, or a network is back.
    addEventListener("pageshow", this.#onVisible);
    addEventListener("online", this.#onVisible);
    this.#refreshQuietly();
  }

  get state(): ViewerSessionState {
    const held = this.#current();
    const expireTime = held && new Date(held.asked.wall + held.lifeMs);
    return { status: this.#status(held), session: held?.session, expireTime, error: this.#error };
  }

  async get(): Promise<string> {
    return this.#current()?.session ?? (await this.#refresh());
  }

  async replace(refusedSession?: string): Promise<string> {
    const held = this.#current();
    if (held && refusedSession !== undefined && held.session !== refusedSession) return held.session;
    // The refused session must not be returned again, even if there is no other.
    this.#held = undefined;
    this.#tell();
    return await this.#refresh();
  }

  dispose(): void {
    if (this.#isDisposed) return;
    this.#isDisposed = true;
    document.removeEventListener("visibilitychange", this.#onVisible);
    removeEventListener("pageshow", this.#onVisible);
    removeEventListener("online", this.#onVisible);
    clearTimeout(this.#timer);
    this.#held = undefined;
    this.#abort?.abort(disposed());
    this.#tell();
  }

  #status(held: Held | undefined): ViewerSessionState["status"] {
    if (this.#isDisposed) return "disposed";
    if (held) return this.#error ? "stale" : "ready";
    return this.#error ? "failed" : "loading";
  }

  /** The session, while it lasts. */
  #current(): Held | undefined {
    return this.#held && age(this.#held) < this.#held.lifeMs ? this.#held : undefined;
  }

  /** Makes up for timers that stood still while the machine slept or the page was hidden. */
  readonly #onVisible = () => {
    if (document.visibilityState !== "visible" || this.#isDisposed) return;
    const held = this.#current();
    if (!held || this.#error || age(held) >= REFRESH_AT * held.lifeMs) this.#refreshQuietly();
  };

  #refreshQuietly(): void {
    // `state` reports the error.
    this.#refresh().catch(() => {});
  }

  /** Makes a request, or joins the one that is under way. */
  #refresh(): Promise<string> {
    if (this.#isDisposed) return Promise.reject(disposed());
    clearTimeout(this.#timer);
    this.#underWay ??= this.#request().finally(() => {
      this.#underWay = undefined;
      this.#abort = undefined;
      if (this.#isDisposed) return;
      this.#wait();
      this.#tell();
    });
    return this.#underWay;
  }

  async #request(): Promise<string> {
    const { fetch, timeoutMs = 10_000 } = this.#options;
    this.#abort = new AbortController();
    const { signal } = this.#abort;
    const late = new ViewerSessionUnavailable(`the back end gave no viewer session within ${timeoutMs} ms`);
    const timer = setTimeout(() => this.#abort?.abort(late), timeoutMs);
    const asked = now();
    try {
      const { session, time } = await until(signal, () => read(fetch({ signal, cache: "no-store" })));
      const lifeMs = lifeOf(session, time);
      if (session === this.#last)
        throw new ViewerSessionUnavailable(
          "the back end gave the same viewer session again: it has to make a new one for each request, and forbid caching",
        );
      this.#held = { session, asked, lifeMs };
      this.#last = session;
      this.#error = undefined;
      this.#failures = 0;
      return session;
    } catch (error) {
      this.#failures += 1;
      this.#error =
        error instanceof ViewerSessionUnavailable
          ? error
          : new ViewerSessionUnavailable("the back end could not be asked for a viewer session", { cause: error });
      throw this.#error;
    } finally {
      clearTimeout(timer);
    }
  }

  /** Sets the timer for the next refresh, or for the end of the session. */
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
    const told = this.#told;
    if (told?.status === state.status && told.session === state.session && told.error === state.error) return;
    this.#told = state;
    try {
      this.#options.onChange?.(state);
    } catch (error) {
      reportError(error);
    }
  }
}

function disposed(): ViewerSessionUnavailable {
  return new ViewerSessionUnavailable("the source of viewer sessions was disposed of");
}

function now(): Moment {
  return { wall: Date.now(), running: performance.now() };
}

/** The age of a session, in milliseconds, by the clock that gives the higher one. */
function age({ asked }: Held): number {
  return Math.max(Date.now() - asked.wall, performance.now() - asked.running);
}

/**
 * Resolves as the action does. Rejects with the signal's reason as soon as it aborts, even if the action ignores the
 * signal.
 */
function until<T>(signal: AbortSignal, act: () => Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
    act().then(resolve, reject);
  });
}

/** The session in the back end's answer, and the time there. @throws ViewerSessionUnavailable when there is none */
async function read(
  answering: Promise<Response | ViewerSessionAnswer>,
): Promise<{ readonly session: string; readonly time: number }> {
  let answer: unknown = await answering;
  let time = Number.NaN;
  if (answer instanceof Response) {
    const { ok, status, headers } = answer;
    time = Date.parse(headers.get("date") ?? "");
    if (!ok) throw new ViewerSessionUnavailable(`the back end gave no viewer session: HTTP ${status}`, { status });
    answer = await answer.json().catch((cause: unknown) => {
      throw new ViewerSessionUnavailable("the back end gave no JSON with a viewer session", { status, cause });
    });
  }
  const { session } = Object(answer) as { session?: unknown };
  if (typeof session === "string") return { session, time };
  const hint = 'its JSON has to be { "session": ... }; where it is {}, the back end did not await createViewerSession';
  throw new ViewerSessionUnavailable(`the back end gave no viewer session: ${hint}`);
}

/**
 * How long a session lasts, in milliseconds. Counted from when it was requested, because the browser's clock may be
 * wrong.
 *
 * @param time when the back end answered, by its own clock, in milliseconds since 1970; NaN: unknown
 * @throws ViewerSessionUnavailable when the text is not a session, or has expired
 */
function lifeOf(session: string, time: number): number {
  let life = 0;
  let end = 0;
  try {
    const payload = (session.split(".")[1] ?? "").replaceAll("-", "+").replaceAll("_", "/");
    // `atob` breaks texts beyond ASCII, but only times are read here.
    const { iat, exp } = JSON.parse(atob(payload)) as { iat: number; exp: number };
    [life, end] = [exp - iat, exp];
  } catch {
    // Not a JWT.
  }
  if (!(life > 0)) throw new ViewerSessionUnavailable("what the back end gave as session is no viewer session");
  if (life > MAX_LIFE_S)
    throw new ViewerSessionUnavailable(
      `the back end gave a session of ${life} seconds, longer than any: its exp and iat have to be in seconds`,
    );
  if (end * 1000 <= time)
    throw new ViewerSessionUnavailable(
      "the back end gave a viewer session that has expired: it has to make a new one for each request, and forbid caching",
    );
  return life * 1000;
}
