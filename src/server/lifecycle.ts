import { setTimeout as pause } from "node:timers/promises";

/**
 * Resolves when the process receives SIGTERM or SIGINT. In a worker, also resolves when the supervisor exits. The
 * listeners stay after the first signal, because one Ctrl-C arrives as two signals if npm runs the service. Without a
 * listener, the second signal would end the process immediately.
 */
export function stopRequested(isWorker: boolean): Promise<undefined> {
  return new Promise((resolve) => {
    for (const signal of ["SIGTERM", "SIGINT"] as const) process.on(signal, () => resolve(undefined));
    if (isWorker) process.on("disconnect", () => resolve(undefined));
  });
}

const IN_THREADS = /^(?:FSReq|CloseReq|GetAddrInfoReq|GetNameInfoReq)/;

/**
 * Ends this process, even if a thread hangs in the file system or in a DNS lookup. In Node, `process.exit` waits for
 * such a thread, so this function uses a signal. In Deno, `process.exit` does not wait.
 */
export async function endProcess(): Promise<void> {
  const isInThreads = () => process.getActiveResourcesInfo().some((name) => IN_THREADS.test(name));
  // Wait, because the work of a finished thread counts as active until the event loop has run.
  for (let turn = 0; turn < 5 && isInThreads(); turn++) await pause(100, undefined, { ref: false });
  if ("Deno" in globalThis || !isInThreads()) process.exit();
  process.removeAllListeners("SIGTERM");
  process.kill(process.pid, process.exitCode ? "SIGKILL" : "SIGTERM");
  // Linux ignores a signal that the first process of a container sends to itself, so such a process still runs here.
  process.abort();
}

type OnFailure = (name: string, error: unknown) => void;

/** Closes resources. The resource that was opened last is closed first. */
export class Lifecycle {
  readonly #closers: { readonly name: string; readonly close: () => unknown }[] = [];
  readonly #onFailure: OnFailure;
  #closing: Promise<readonly string[]> | undefined;

  constructor(onFailure: OnFailure = () => {}) {
    this.#onFailure = onFailure;
  }

  /** Adds a resource to close. Call this method immediately after the resource was opened. */
  onClose(name: string, close: () => unknown): void {
    this.#closers.push({ name, close });
  }

  /** Whether `close` was called. */
  get isClosing(): boolean {
    return this.#closing !== undefined;
  }

  /**
   * Waits for `delayMs`, and then closes all resources within `timeoutMs`. Later calls return the same promise.
   *
   * @returns the names of the resources that could not be closed
   */
  close(timeoutMs: number, { delayMs = 0 }: { readonly delayMs?: number } = {}): Promise<readonly string[]> {
    // Closers may read `isClosing`, so set `#closing` before the first closer runs.
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
 * Waits for `closed` for at most `ms` milliseconds. If `closed` has already resolved, succeeds even if `ms` is 0.
 *
 * @throws Error if `closed` is still pending after `ms`; the error of `closed` if `closed` rejects
 */
async function within(ms: number, closed: Promise<unknown>): Promise<void> {
  await new Promise((resolve, reject) => {
    const late = () => reject(new Error("not closed before the shutdown timeout"));
    const timer = setTimeout(late, Math.max(ms, 0));
    closed.finally(() => clearTimeout(timer)).then(resolve, reject);
  });
}
