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
   * @returns what failed to close or was given up
   */
  close(timeoutMs: number): Promise<readonly string[]> {
    // Not before `isClosing` holds: closers may look at it.
    this.#closing ??= Promise.resolve().then(() => this.#closeAll(timeoutMs));
    return this.#closing;
  }

  async #closeAll(timeoutMs: number): Promise<readonly string[]> {
    const failed: string[] = [];
    let timer: ReturnType<typeof setTimeout> | undefined;
    const deadline = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Error("deadline")), timeoutMs);
    });
    deadline.catch(() => {});
    for (const { name, close } of this.#closers.reverse()) {
      try {
        await Promise.race([close(), deadline]);
      } catch {
        failed.push(name);
      }
    }
    clearTimeout(timer);
    return failed;
  }
}
