import { once } from "node:events";
import { FLAG, FRAME, FrameReader, frame, hpackBlock, numberFrame, PREFACE, settings } from "../http2-frames.ts";
import { waitFor } from "../wait.ts";
import { openWire, type Wire } from "./wire.ts";

interface StreamState {
  window: number;
  isAnswered: boolean;
  isEnded: boolean;
}

export interface Http2Options {
  /**
   * SETTINGS_INITIAL_WINDOW_SIZE that the client sends. The server may send this number of bytes on a stream before it
   * must wait for a WINDOW_UPDATE. Default: 65,535 (RFC 9113).
   */
  readonly window?: number;
  /** Whether the client sends WINDOW_UPDATE for received data. Default true. */
  readonly reads?: boolean;
}

const SETTINGS_INITIAL_WINDOW = 4;
const DEFAULT_WINDOW = 65_535;
const MAX_WRITE_BYTES = 65_536;

/** An attacker's HTTP/2 connection, which can send invalid frames and ignore flow control. */
export class Http2Wire {
  readonly wire: Wire;
  isGoingAway = false;
  pongs = 0;
  /** Number of streams that the server reset before it sent response headers. */
  unanswered = 0;
  #nextStream = 1;
  #window = DEFAULT_WINDOW;
  #firstWindow = DEFAULT_WINDOW;
  readonly #streams = new Map<number, StreamState>();
  readonly #reads: boolean;

  static async open(url: string, options: Http2Options = {}): Promise<Http2Wire> {
    const wire = await openWire(url, "h2");
    const { window } = options;
    await wire.send(PREFACE);
    await wire.send(window === undefined ? settings() : settings([SETTINGS_INITIAL_WINDOW, window]));
    return new Http2Wire(wire, options);
  }

  constructor(wire: Wire, { reads = true }: Http2Options) {
    this.wire = wire;
    this.#reads = reads;
    const reader = new FrameReader();
    wire.socket.on("data", (chunk: Buffer) => {
      for (const received of reader.push(chunk)) this.#take(received);
    });
  }

  newStream(): number {
    const stream = this.#nextStream;
    this.#nextStream += 2;
    this.#streams.set(stream, { window: this.#firstWindow, isAnswered: false, isEnded: false });
    return stream;
  }

  /** @returns the stream id */
  async request(
    fields: readonly (readonly [string, string])[],
    { isEnd = true }: { readonly isEnd?: boolean } = {},
  ): Promise<number> {
    const stream = this.newStream();
    const flags = FLAG.endHeaders | (isEnd ? FLAG.endStream : 0);
    await this.wire.send(frame(FRAME.headers, flags, stream, hpackBlock(fields)));
    return stream;
  }

  /**
   * Sends a body in frames of at most `pieceBytes` bytes. While a flow-control window is closed, waits.
   *
   * @returns false if the stream or the connection ended early, or if the window stayed closed for `patienceMs`
   */
  async data(
    stream: number,
    body: Uint8Array,
    { pieceBytes = 16_384, isEnd = false, patienceMs = 20_000 } = {},
  ): Promise<boolean> {
    for (let at = 0; at < body.byteLength; ) {
      const state = this.#streams.get(stream);
      if (!state || state.isEnded || this.wire.isClosed) return false;
      const room = Math.min(state.window, this.#window);
      if (room <= 0) {
        const isOpen = () => this.wire.isClosed || state.isEnded || Math.min(state.window, this.#window) > 0;
        if (!(await this.#until(isOpen, patienceMs))) return false;
        continue;
      }
      const frames: Buffer[] = [];
      for (let left = Math.min(room, MAX_WRITE_BYTES, body.byteLength - at); left > 0; ) {
        const length = Math.min(pieceBytes, left);
        const isLast = isEnd && at + length === body.byteLength;
        frames.push(frame(FRAME.data, isLast ? FLAG.endStream : 0, stream, body.subarray(at, at + length)));
        at += length;
        left -= length;
        state.window -= length;
        this.#window -= length;
      }
      if (!(await this.wire.send(Buffer.concat(frames)))) return false;
    }
    return true;
  }

  /** Returns true if a response has begun, or if the stream or the connection has ended. */
  isAnswered(stream: number): boolean {
    const state = this.#streams.get(stream);
    return this.wire.isClosed || state === undefined || state.isAnswered || state.isEnded;
  }

  isEnded(stream: number): boolean {
    return this.wire.isClosed || (this.#streams.get(stream)?.isEnded ?? true);
  }

  openStreams(): number {
    if (this.wire.isClosed) return 0;
    return [...this.#streams.values()].filter(({ isEnded }) => !isEnded).length;
  }

  /**
   * Waits until the server answers a PING. The server has then read all frames that were sent before the PING. Returns
   * early if the server sends GOAWAY or closes the connection.
   */
  async flushed(): Promise<void> {
    const before = this.pongs;
    await this.wire.send(frame(FRAME.ping, 0, 0, Buffer.alloc(8)));
    await waitFor(
      "the server answers a PING",
      () => this.wire.isClosed || this.isGoingAway || this.pongs > before,
      60_000,
    );
  }

  /**
   * Waits until a received frame makes a condition true. Checks only when data arrives, because polling would slow down
   * uploads.
   *
   * @returns false on timeout
   */
  async #until(condition: () => boolean, timeoutMs: number): Promise<boolean> {
    const signal = AbortSignal.any([this.wire.ended, AbortSignal.timeout(timeoutMs)]);
    while (!condition() && !signal.aborted) await once(this.wire.socket, "data", { signal }).catch(() => {});
    return condition();
  }

  #take({ type, flags, stream, payload }: ReturnType<FrameReader["push"]>[number]): void {
    const state = this.#streams.get(stream);
    if (type === FRAME.settings && !(flags & FLAG.ack)) {
      this.#applySettings(payload);
      this.wire.push(frame(FRAME.settings, FLAG.ack, 0));
    } else if (type === FRAME.ping) this.pongs++;
    else if (type === FRAME.goAway) {
      this.isGoingAway = true;
      this.wire.giveUp();
    } else if (type === FRAME.windowUpdate) {
      if (stream === 0) this.#window += payload.readUInt32BE(0);
      else if (state) state.window += payload.readUInt32BE(0);
    } else if (type === FRAME.reset && state) {
      if (!state.isAnswered) this.unanswered++;
      state.isEnded = true;
    } else if (type === FRAME.headers && state) state.isAnswered = true;
    else if (type === FRAME.data && state && this.#reads && payload.byteLength > 0) {
      this.wire.push(numberFrame(FRAME.windowUpdate, 0, payload.byteLength));
      this.wire.push(numberFrame(FRAME.windowUpdate, stream, payload.byteLength));
    }
    if ((type === FRAME.headers || type === FRAME.data) && flags & FLAG.endStream && state) state.isEnded = true;
  }

  #applySettings(payload: Buffer): void {
    for (let at = 0; at + 6 <= payload.length; at += 6) {
      if (payload.readUInt16BE(at) !== SETTINGS_INITIAL_WINDOW) continue;
      const window = payload.readUInt32BE(at + 2);
      for (const state of this.#streams.values()) state.window += window - this.#firstWindow;
      this.#firstWindow = window;
    }
  }
}
