import { once } from "node:events";
import { connect as connectTcp, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";

/** A connection on which a test controls every byte. */
export class Wire {
  readonly socket: Socket;
  /** Number of received bytes. */
  receivedBytes = 0;
  isClosed = false;
  #chunks: Buffer[] = [];
  readonly #giveUp = new AbortController();
  /** Aborted when nothing more is sent. */
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

  /** Sends bytes and waits for the peer to read them. @returns false if the connection was closed or timed out */
  async send(bytes: Uint8Array | string): Promise<boolean> {
    const { socket } = this;
    if (this.isClosed || !socket.writable || this.ended.aborted) return false;
    if (!socket.write(bytes)) {
      const signal = AbortSignal.any([this.ended, AbortSignal.timeout(PATIENCE_MS)]);
      await once(socket, "drain", { signal }).catch(() => this.giveUp());
    }
    return !this.isClosed;
  }

  /** Whether the peer has closed its receiving side. Nothing more is sent, although the connection may stay open. */
  giveUp(): void {
    this.#giveUp.abort();
  }

  /** Sends bytes without waiting, unless the peer has stopped reading. For floods. */
  push(bytes: Uint8Array | string): void {
    if (!this.isClosed && this.socket.writable) this.socket.write(bytes);
  }

  close(): void {
    this.socket.destroy();
  }
}

/** Timeout for a peer that reads nothing, in milliseconds. */
const PATIENCE_MS = 20_000;

/** Starts to connect to a URL. Over TLS, it uses the ALPN protocol and accepts every certificate. */
export function connectTo(url: string, alpn: "h2" | "http/1.1", localAddress = "127.0.0.1"): Socket {
  const { hostname: host, port, protocol } = new URL(url);
  const where = { host, port: Number(port), noDelay: true, localAddress };
  return protocol === "https:"
    ? connectTls({ ...where, ALPNProtocols: [alpn], rejectUnauthorized: false })
    : connectTcp(where);
}

/** Connects to a URL; over TLS, with the given ALPN protocol. */
export async function openWire(url: string, protocol: "h2" | "http/1.1"): Promise<Wire> {
  const socket = connectTo(url, protocol);
  await once(socket, "encrypted" in socket ? "secureConnect" : "connect");
  return new Wire(socket);
}

/** Connects by TCP without TLS. */
export function openTcp(url: string): Promise<Wire> {
  return openWire(url.replace("https:", "http:"), "http/1.1");
}
