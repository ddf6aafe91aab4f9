import { once } from "node:events";
import { connect as connectTcp, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";

/** An attacker's connection. The attack controls every byte. */
export class Wire {
  readonly socket: Socket;
  /** Number of received bytes. */
  receivedBytes = 0;
  isClosed = false;
  #chunks: Buffer[] = [];
  #keptBytes = 0;
  readonly #giveUp = new AbortController();
  readonly #givenUp = this.#giveUp.signal;

  constructor(socket: Socket) {
    this.socket = socket;
    socket.setNoDelay(true);
    socket.on("error", () => {});
    socket.on("close", () => {
      this.isClosed = true;
    });
    socket.on("data", (chunk: Buffer) => {
      this.receivedBytes += chunk.byteLength;
      if (this.#keptBytes > MAX_KEPT_BYTES) return;
      this.#keptBytes += chunk.byteLength;
      this.#chunks.push(chunk);
    });
  }

  /** Received bytes, up to a megabyte. */
  received(): Buffer {
    this.#chunks = [Buffer.concat(this.#chunks)];
    return this.#chunks[0] as Buffer;
  }

  /** Sends bytes and waits for the peer to read them. @returns false if the connection was closed or timed out */
  async send(bytes: Uint8Array | string): Promise<boolean> {
    const { socket } = this;
    if (this.isClosed || !socket.writable || this.#givenUp.aborted) return false;
    if (!socket.write(bytes)) {
      await new Promise<void>((resolve) => {
        const done = () => {
          clearTimeout(timer);
          socket.off("drain", done);
          socket.off("close", done);
          this.#givenUp.removeEventListener("abort", done);
          resolve();
        };
        const timer = setTimeout(() => {
          this.giveUp();
          done();
        }, PATIENCE_MS);
        socket.once("drain", done);
        socket.once("close", done);
        this.#givenUp.addEventListener("abort", done);
      });
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
const MAX_KEPT_BYTES = 1024 * 1024;

/** Connects to a URL; over TLS, with the given ALPN protocol. */
export async function openWire(url: string, protocol: "h2" | "http/1.1"): Promise<Wire> {
  const { hostname, port, protocol: scheme } = new URL(url);
  const where = { host: hostname, port: Number(port) };
  const isTls = scheme === "https:";
  // An attacker does not verify certificates.
  const socket = isTls
    ? connectTls({ ...where, ALPNProtocols: [protocol], rejectUnauthorized: false })
    : connectTcp(where);
  await once(socket, isTls ? "secureConnect" : "connect");
  return new Wire(socket);
}

/** Connects by TCP without TLS. */
export async function openTcp(url: string): Promise<Wire> {
  const { hostname, port } = new URL(url);
  const socket = connectTcp({ host: hostname, port: Number(port) });
  await once(socket, "connect");
  return new Wire(socket);
}
