/** The body of a response that can be ended though nobody reads it; `pipeTo` would wait for what it has written. */
export class EndableBody {
  readonly readable: ReadableStream<Uint8Array>;
  /** Resolves when the body has been read, has failed, was given up by its reader, or was ended. */
  readonly ended: Promise<void>;
  readonly #source: ReadableStreamDefaultReader<Uint8Array>;
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  #settle = () => {};

  constructor(source: ReadableStream<Uint8Array>) {
    this.#source = source.getReader();
    this.ended = new Promise((resolve) => {
      this.#settle = resolve;
    });
    const start = (controller: ReadableStreamDefaultController<Uint8Array>) => {
      this.#controller = controller;
    };
    const cancel = (reason: unknown) => {
      this.#settle();
      return this.#source.cancel(reason);
    };
    this.readable = new ReadableStream({ start, pull: (controller) => this.#pull(controller), cancel });
  }

  end(): void {
    const reason = new Error("the stream was ended");
    this.#controller?.error(reason);
    this.#settle();
    this.#source.cancel(reason).catch(() => {});
  }

  async #pull(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    try {
      const { done, value } = await this.#source.read();
      if (!done) return controller.enqueue(value);
      controller.close();
    } catch (error) {
      controller.error(error);
    }
    this.#settle();
  }
}
