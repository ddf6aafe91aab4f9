import { connect, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { FrameReader, type ReceivedFrame } from "./http2-frames.ts";
import { waitFor } from "./wait.ts";

/**
 * The HTTP/2 connection preface, empty SETTINGS, and the headers of `GET /` on stream 1 (RFC 9113, 3.4, 6.5 and 6.2;
 * RFC 7541).
 */
export const HTTP2_GET = Buffer.concat([
  Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
  Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]),
  Buffer.from([0, 0, 6, 1, 5, 0, 0, 0, 1, 0x82, 0x86, 0x84, 0x41, 1, 0x78]),
]);

/** A connection on which a test controls every byte. */
export interface RawSocket {
  readonly socket: Socket;
  /** Sends bytes one by one, each in its own packet. */
  sendSlowly(bytes: Uint8Array | string): Promise<void>;
  send(bytes: Uint8Array | string): void;
  received(): Buffer;
  /** The HTTP/2 frames received so far. */
  frames(): ReceivedFrame[];
  isClosed(): boolean;
}

/**
 * Connects to a URL. Over TLS, it accepts every certificate.
 *
 * @param alpn the ALPN protocol for TLS
 * @param options `localAddress`: client address within 127.0.0.0/8; `first`: bytes to send as soon as the connection is
 * open
 */
export async function rawConnect(
  url: string,
  alpn: "h2" | "http/1.1" = "h2",
  {
    localAddress = "127.0.0.1",
    first = "",
  }: { readonly localAddress?: string; readonly first?: Uint8Array | string } = {},
): Promise<RawSocket> {
  const { hostname: host, port, protocol } = new URL(url);
  const isSecure = protocol === "https:";
  const tcp = connect({ host, port: Number(port), noDelay: true, localAddress });
  tcp.on("error", () => {});
  const socket = isSecure ? connectTls({ socket: tcp, rejectUnauthorized: false, ALPNProtocols: [alpn] }) : tcp;
  const chunks: Buffer[] = [];
  let closed = false;
  let secured = !isSecure;
  socket.once("secureConnect", () => {
    secured = true;
  });
  socket.on("data", (chunk) => chunks.push(chunk));
  socket.on("error", () => {});
  socket.on("close", () => {
    closed = true;
  });
  if (first.length > 0) socket.write(first);
  await waitFor("the connection is open", () => closed || (!tcp.connecting && secured));
  return {
    socket,
    send: (bytes) => void socket.write(bytes),
    sendSlowly: async (bytes) => {
      for (const byte of Buffer.from(bytes)) {
        await new Promise<void>((resolve) => socket.write(Buffer.of(byte), () => setTimeout(resolve, 1)));
      }
    },
    received: () => Buffer.concat(chunks),
    frames: () => framesIn(Buffer.concat(chunks)),
    isClosed: () => closed,
  };
}

/** The HTTP/2 frames in the bytes received so far. */
export function framesIn(bytes: Buffer): ReceivedFrame[] {
  return new FrameReader().push(bytes);
}
