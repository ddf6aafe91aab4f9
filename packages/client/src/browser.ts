/*
 * Viewer sessions in a page. This file imports nothing, and runs in any browser of these years.
 */

/** Which part of a session's life is over when the next one is made. */
const REFRESH_AT = 0.8;

/** The longest pauses after the first and after many refreshes that failed, in milliseconds. */
const FIRST_PAUSE_MS = 1000;
const MAX_PAUSE_MS = 30_000;

/** How a page gets viewer sessions. */
export interface ViewerSessionOptions {
  /**
   * Asks the page's own back end for a session, which makes a new one for whoever is logged in:
   * `(init) => fetch("/viewer-session", init)`. It gives the response, whose JSON has the session as `session`, or such an object.
   * `init` has the signal that ends it, and `cache: "no-store"`.
   */
  readonly fetch: (init: ViewerSessionRequest) => Promise<Response | ViewerSessionAnswer>;
  /** How long `fetch` may take, in milliseconds. Default: 10,000. */
  readonly timeoutMs?: number;
  /** Is told of every change of `state`. */
  readonly onChange?: (state: ViewerSessionState) => void;
}

/** What `fetch` is called with. */
export interface ViewerSessionRequest {
  readonly signal: AbortSignal;
  readonly cache: "no-store";
}

/** What the back end answers: what `CreateViewerSession` gave it, or a part of that. */
export interface ViewerSessionAnswer {
  readonly session: string;
}

/**
 * How a page stands.
 *
 * - `loading`: there is no session yet.
 * - `ready`: there is one.
 * - `stale`: there is one, but to refresh it failed. It is tried again until the session ends.
 * - `failed`: there is none, because none could be had, or the last one ended. It is tried again, unless the back end refused it.
 * - `disposed`: the source was ended.
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

/** There is no session to be had. */
export class ViewerSessionUnavailable extends Error {
  override readonly name = "ViewerSessionUnavailable";
  /** The status that the back end answered with; undefined when it did not answer. 401 and 403 end further attempts. */
  readonly status: number | undefined;
  constructor(message: string, options: { readonly status?: number; readonly cause?: unknown } = {}) {
    super(message, { cause: options.cause });
    this.status = options.status;
  }
}

/** Keeps a page in viewer sessions. */
export interface ViewerSessionSource {
  /** How the page stands now. */
  readonly state: ViewerSessionState;
  /**
   * The session that is to be sent with a request. It waits only where there is none.
   *
   * @throws ViewerSessionUnavailable when there is none, and none can be had
   */
  get(): Promise<string>;
  /**
   * Another session, for one that was refused (401), though it should still last. Calls at the same time make one request.
   *
   * @param refusedSession the one that was refused: where there is another one since, that one is given
   * @throws ViewerSessionUnavailable when none can be had; then the refused one is not given again
   */
  replace(refusedSession?: string): Promise<string>;
  /** Ends timers, listeners and what is under way. Further calls are refused. */
  dispose(): void;
}

/** A session that the page has. */
interface Held {
  readonly session: string;
  /** When it was asked for, by both clocks, in milliseconds. */
  readonly asked: Moment;
  readonly lifeMs: number;
}

/** A time by the clock, which stands when a person sets it back, and by one that stands while the machine sleeps. */
interface Moment {
  readonly wall: number;
  readonly running: number;
}

/**
 * Keeps a page in viewer sessions: it gets one at once, the next one when four fifths of its life are over and when the page is
 * looked at again after that, and keeps the present one while that fails. One request is under way at a time.
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
    // Coming back to a page that was kept whole, or to a network.
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
    // One that was refused is not to be given again, whatever becomes of the next.
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

  /** What a page that is looked at again may have missed: timers stand while a machine sleeps. */
  readonly #onVisible = () => {
    if (document.visibilityState !== "visible" || this.#isDisposed) return;
    const held = this.#current();
    if (!held || this.#error || age(held) >= REFRESH_AT * held.lifeMs) this.#refreshQuietly();
  };

  #refreshQuietly(): void {
    // `state` has the error.
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
      const answer = await until(signal, () => read(fetch({ signal, cache: "no-store" })));
      const lifeMs = lifeOf(answer);
      if (answer === this.#last)
        throw new ViewerSessionUnavailable(
          "the back end gave the same viewer session again: it has to make a new one for each request, and forbid caching",
        );
      this.#held = { session: answer, asked, lifeMs };
      this.#last = answer;
      this.#error = undefined;
      this.#failures = 0;
      return answer;
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

  /** Sets the timer for what comes next: a refresh, or telling that the session has ended. */
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

/** How old a session is, in milliseconds: by the clock that says more. */
function age({ asked }: Held): number {
  return Math.max(Date.now() - asked.wall, performance.now() - asked.running);
}

/** The result of an action, or the reason of the signal as soon as that ends it, whether the action heeds it or not. */
function until<T>(signal: AbortSignal, act: () => Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
    act().then(resolve, reject);
  });
}

/** The session of what the back end answers. @throws ViewerSessionUnavailable when it has none */
async function read(answering: Promise<Response | ViewerSessionAnswer>): Promise<string> {
  let answer: unknown = await answering;
  if (answer instanceof Response) {
    const { ok, status } = answer;
    if (!ok) throw new ViewerSessionUnavailable(`the back end gave no viewer session: HTTP ${status}`, { status });
    answer = await answer.json().catch((cause: unknown) => {
      throw new ViewerSessionUnavailable("the back end gave no JSON with a viewer session", { status, cause });
    });
  }
  const { session } = Object(answer) as { session?: unknown };
  if (typeof session === "string") return session;
  throw new ViewerSessionUnavailable('the back end gave no viewer session: its JSON has to be { "session": ... }');
}

/**
 * How long a session lasts, in milliseconds. It is counted from when it was asked for: the clock of the browser may be wrong.
 *
 * @throws ViewerSessionUnavailable when it is none
 */
function lifeOf(session: string): number {
  try {
    const payload = (session.split(".")[1] ?? "").replaceAll("-", "+").replaceAll("_", "/");
    // Of the claims only times are read, which are ASCII.
    const { iat, exp } = JSON.parse(atob(payload)) as { iat: number; exp: number };
    if (exp > iat) return (exp - iat) * 1000;
  } catch {
    // It is no JWT.
  }
  throw new ViewerSessionUnavailable("what the back end gave as session is no viewer session");
}
