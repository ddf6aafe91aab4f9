import { setTimeout as pause } from "node:timers/promises";

/**
 * Resolves when the process receives a stop signal, or when the supervisor of a worker exits. The listeners are never removed:
 * under npm, one Ctrl-C arrives as two signals, one from the terminal and one from npm.
 */
export function stopRequested(isWorker: boolean): Promise<undefined> {
  return new Promise((resolve) => {
    for (const signal of ["SIGTERM", "SIGINT"] as const) process.on(signal, () => resolve(undefined));
    if (isWorker) process.on("disconnect", () => resolve(undefined));
  });
}

/** The names in `getActiveResourcesInfo` of file and DNS work in the thread pool of Node. */
const IN_THREADS = /^(?:FSReq|CloseReq|GetAddrInfoReq|GetNameInfoReq)/;

/**
 * Ends this process, even if a thread hangs in the file system or in a DNS lookup. In Node, `process.exit` waits for
 * such threads, so this function uses a signal. In Deno, `process.exit` does not wait.
 */
export async function endProcess(): Promise<void> {
  const isInThreads = () => process.getActiveResourcesInfo().some((name) => IN_THREADS.test(name));
  // A thread may have finished before the event loop notices. The pauses let the event loop run.
  for (let turn = 0; turn < 5 && isInThreads(); turn++) await pause(100, undefined, { ref: false });
  if ("Deno" in globalThis || !isInThreads()) process.exit();
  process.removeAllListeners("SIGTERM");
  process.kill(process.pid, process.exitCode ? "SIGKILL" : "SIGTERM");
  // The first process of a container ignores its own signals.
  process.abort();
}

/** Called with each closer that fails, and its error. */
type OnFailure = (name: string, error: unknown) => void;

/** Closes resources in reverse order of their opening. */
export class Lifecycle {
  readonly #closers: { readonly name: string; readonly close: () => unknown }[] = [];
  readonly #onFailure: OnFailure;
  #closing: Promise<readonly string[]> | undefined;

  constructor(onFailure: OnFailure = () => {}) {
    this.#onFailure = onFailure;
  }

  /** Registers a closer. Call it right after opening the resource. */
  onClose(name: string, close: () => unknown): void {
    this.#closers.push({ name, close });
  }

  /** Whether closing has begun. The process should then receive no new work. */
  get isClosing(): boolean {
    return this.#closing !== undefined;
  }

  /**
   * Closes all resources within one timeout. Further calls return the same promise.
   *
   * @param timeoutMs in milliseconds. Resources that are still open are then abandoned
   * @param delayMs the time between `isClosing` and the first closer, in milliseconds
   * @returns the names of the resources that could not be closed
   */
  close(timeoutMs: number, { delayMs = 0 }: { readonly delayMs?: number } = {}): Promise<readonly string[]> {
    // Closers may read `isClosing`, so it is set first.
    this.#closing ??= pause(delayMs).then(() => this.#closeAll(timeoutMs));
    return this.#closing;
  }

  async #closeAll(timeoutMs: number): Promise<readonly string[]> {
    const failed: string[] = [];
    const end = performance.now() + timeoutMs;
    for (const { name, close } of this.#closers.reverse()) {
      try {
        await within(end - performance.now(), (async () => close())());
      } catch (error) {
        failed.push(name);
        this.#onFailure(name, error);
      }
    }
    return failed;
  }
}

/**
 * Waits until a closer has finished.
 *
 * @param ms maximum time, in milliseconds. With 0 or less, the function waits for one turn of the event loop
 * @throws Error if the closer is not done in this time; the error of the closer
 */
async function within(ms: number, closed: Promise<unknown>): Promise<void> {
  await new Promise((resolve, reject) => {
    const late = () => reject(new Error("not closed before the shutdown timeout"));
    const timer = setTimeout(late, Math.max(ms, 0));
    closed.finally(() => clearTimeout(timer)).then(resolve, reject);
  });
}
