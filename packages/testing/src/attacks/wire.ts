import { once } from "node:events";
import { connect as connectTcp, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { framesIn, type ReceivedFrame } from "../http2-frames.ts";

/** A connection on which a test controls every byte. */
export class Wire {
  readonly socket: Socket;
  receivedBytes = 0;
  isClosed = false;
  #chunks: Buffer[] = [];
  readonly #giveUp = new AbortController();
  /** Aborted when the connection is closed, or when `giveUp` is called. */
  readonly ended = this.#giveUp.signal;

  constructor(socket: Socket) {
    this.socket = socket;
    socket.on("error", () => {});
    socket.on("close", () => {
      this.isClosed = true;
      this.giveUp();
    });
    socket.on("data", (chunk: Buffer) => {
      this.receivedBytes += chunk.byteLength;
      this.#chunks.push(chunk);
    });
  }

  received(): Buffer {
    this.#chunks = [Buffer.concat(this.#chunks)];
    return this.#chunks[0] as Buffer;
  }

  /**
   * Sends bytes. If the send buffer is full, waits until the peer has read the bytes. If this takes longer than
   * `PATIENCE_MS`, calls `giveUp`.
   *
   * @returns false if the connection is closed, or if `giveUp` was called before `send`
   */
  async send(bytes: Uint8Array | string): Promise<boolean> {
    const { socket } = this;
    if (this.isClosed || !socket.writable || this.ended.aborted) return false;
    if (!socket.write(bytes)) {
      const signal = AbortSignal.any([this.ended, AbortSignal.timeout(PATIENCE_MS)]);
      await once(socket, "drain", { signal }).catch(() => this.giveUp());
    }
    return !this.isClosed;
  }

  /**
   * Makes a pending `send` stop waiting. After this call, `send` sends nothing and returns false. The connection stays
   * open.
   */
  giveUp(): void {
    this.#giveUp.abort();
  }

  /** Sends bytes, and does not wait until the peer reads them. */
  push(bytes: Uint8Array | string): void {
    if (!this.isClosed && this.socket.writable) this.socket.write(bytes);
  }

  /** Sends bytes one by one, and waits a millisecond after each byte, so that each byte is a separate packet. */
  async pushSlowly(bytes: Uint8Array | string): Promise<void> {
    for (const byte of Buffer.from(bytes as string)) {
      await new Promise<void>((resolve) => this.socket.write(Buffer.of(byte), () => setTimeout(resolve, 1)));
    }
  }

  frames(): ReceivedFrame[] {
    return framesIn(this.received());
  }

  close(): void {
    this.socket.destroy();
  }
}

/** Maximum wait for a peer that does not read, in milliseconds. */
const PATIENCE_MS = 20_000;

interface WireOptions {
  /** The client address, within 127.0.0.0/8. */
  readonly localAddress?: string;
  readonly first?: Uint8Array | string;
}

/**
 * Connects to a URL, and waits until the connection is open or closed. If the scheme of the URL is `https`, the client
 * uses TLS, offers the protocol `alpn` and accepts every certificate.
 */
export async function openWire(
  url: string,
  alpn: "h2" | "http/1.1" = "h2",
  { localAddress = "127.0.0.1", first = "" }: WireOptions = {},
): Promise<Wire> {
  const { hostname: host, port, protocol } = new URL(url);
  const where = { host, port: Number(port), noDelay: true, localAddress };
  const isSecure = protocol === "https:";
  const socket = isSecure
    ? connectTls({ ...where, ALPNProtocols: [alpn], rejectUnauthorized: false })
    : connectTcp(where);
  const wire = new Wire(socket);
  if (first.length > 0) socket.write(first);
  await once(socket, isSecure ? "secureConnect" : "connect", { signal: wire.ended }).catch(() => {});
  return wire;
}

/** Connects without TLS, even if the URL has the scheme `https`. */
export function openTcp(url: string): Promise<Wire> {
  return openWire(url.replace("https:", "http:"), "http/1.1");
}
