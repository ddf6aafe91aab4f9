import { setTimeout as pause } from "node:timers/promises";

/**
 * Resolves when the process is asked to stop: by a signal, and a worker also by the end of its supervisor. The listeners stay
 * for the life of the process: under npm, one Ctrl-C arrives as two signals, because both the terminal and npm send it.
 */
export function stopRequested(isWorker: boolean): Promise<undefined> {
  return new Promise((resolve) => {
    for (const signal of ["SIGTERM", "SIGINT"] as const) process.on(signal, () => resolve(undefined));
    if (isWorker) process.on("disconnect", () => resolve(undefined));
  });
}

/** Work of Node's thread pool, as `getActiveResourcesInfo` names it: files and host names. */
const IN_THREADS = /^(?:FSReq|CloseReq|GetAddrInfoReq|GetNameInfoReq)/;

/**
 * Ends this process, even if a thread hangs in the file system or in a host name lookup. `process.exit` of Node waits for
 * such threads, so a signal ends the process then. Deno's does not wait.
 */
export async function endProcess(): Promise<void> {
  const isInThreads = () => process.getActiveResourcesInfo().some((name) => IN_THREADS.test(name));
  // On a busy machine, a thread's work may be done before the event loop sees it. These pauses give the loop its turns.
  for (let turn = 0; turn < 5 && isInThreads(); turn++) await pause(100, undefined, { ref: false });
  if ("Deno" in globalThis || !isInThreads()) process.exit();
  process.removeAllListeners("SIGTERM");
  process.kill(process.pid, process.exitCode ? "SIGKILL" : "SIGTERM");
  // The first process of a container cannot end itself by a signal.
  process.abort();
}

/** Called with each closer that failed. */
export type CloseFailure = (name: string, error: unknown) => void;

/** See `Lifecycle.close`. */
interface CloseOptions {
  readonly onFailure?: CloseFailure;
  readonly delayMs?: number;
}

/** Closes resources in reverse order of their opening. */
export class Lifecycle {
  readonly #closers: { readonly name: string; readonly close: () => unknown }[] = [];
  #closing: Promise<readonly string[]> | undefined;

  /** Registers a closer. Call it right after opening the resource. */
  onClose(name: string, close: () => unknown): void {
    this.#closers.push({ name, close });
  }

  /** Whether closing has begun, so that the process should get no new work. */
  get isClosing(): boolean {
    return this.#closing !== undefined;
  }

  /**
   * Closes everything once, within one deadline for all.
   *
   * @param timeoutMs in milliseconds; resources not closed by then are abandoned
   * @param onFailure called with each closer that fails, and its error
   * @param delayMs how long `isClosing` is true before the first resource is closed, in milliseconds
   * @returns the names of the resources that failed to close or were abandoned
   */
  close(timeoutMs: number, { onFailure, delayMs = 0 }: CloseOptions = {}): Promise<readonly string[]> {
    // Starts after `isClosing` is set, because closers may read it.
    this.#closing ??= pause(delayMs).then(() => this.#closeAll(timeoutMs, onFailure));
    return this.#closing;
  }

  async #closeAll(timeoutMs: number, onFailure?: CloseFailure): Promise<readonly string[]> {
    const failed: string[] = [];
    const end = performance.now() + timeoutMs;
    for (const { name, close } of this.#closers.reverse()) {
      try {
        await within(end - performance.now(), (async () => close())());
      } catch (error) {
        failed.push(name);
        onFailure?.(name, error);
      }
    }
    return failed;
  }
}

/** Waits until a resource is closed, for so many milliseconds; with 0 or less, for one turn of the event loop. */
async function within(ms: number, closed: Promise<unknown>): Promise<void> {
  await new Promise((resolve, reject) => {
    const late = () => reject(new Error("not closed before the shutdown timeout"));
    const timer = setTimeout(late, Math.max(ms, 0));
    closed.finally(() => clearTimeout(timer)).then(resolve, reject);
  });
}
