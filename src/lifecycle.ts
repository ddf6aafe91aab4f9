/** Told of a closer that failed. */
export type CloseFailure = (name: string, error: unknown) => void;

/** Closes what was opened, last opened first. */
export class Lifecycle {
  readonly #closers: { readonly name: string; readonly close: () => unknown }[] = [];
  #closing: Promise<readonly string[]> | undefined;

  /** Registers the closer of what was opened on the line before. */
  onClose(name: string, close: () => unknown): void {
    this.#closers.push({ name, close });
  }

  /** Whether closing has begun, so that nobody should send more work. */
  get isClosing(): boolean {
    return this.#closing !== undefined;
  }

  /**
   * Closes everything once, within one deadline for all.
   *
   * @param timeoutMs in milliseconds; what is not closed by then is given up
   * @param onFailure told of each closer that fails, and why
   * @returns what failed to close or was given up
   */
  close(timeoutMs: number, onFailure?: CloseFailure): Promise<readonly string[]> {
    // Not before `isClosing` holds: closers may look at it.
    this.#closing ??= Promise.resolve().then(() => this.#closeAll(timeoutMs, onFailure));
    return this.#closing;
  }

  async #closeAll(timeoutMs: number, onFailure?: CloseFailure): Promise<readonly string[]> {
    const failed: string[] = [];
    const end = performance.now() + timeoutMs;
    for (const { name, close } of this.#closers.reverse()) {
      try {
        await within(end - performance.now(), close);
      } catch (error) {
        failed.push(name);
        onFailure?.(name, error);
      }
    }
    return failed;
  }
}

/** Runs a closer for so many milliseconds at most. One that has little to do gets by when no time is left, too. */
async function within(ms: number, close: () => unknown): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const deadline = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error("deadline")), Math.max(ms, 0));
  });
  try {
    await Promise.race([close(), deadline]);
  } finally {
    clearTimeout(timer);
    // A closer that threw left nobody to wait for it.
    deadline.catch(() => {});
  }
}
