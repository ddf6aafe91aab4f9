import type { Socket } from "node:net";
import { connectTo, Wire } from "./attacks/wire.ts";
import { FLAG, FRAME, FrameReader, frame, HELLO, type ReceivedFrame } from "./http2-frames.ts";
import { waitFor } from "./wait.ts";

/** The start of an HTTP/2 connection, and the headers of `GET /` on stream 1. */
export const HTTP2_GET = Buffer.concat([
  HELLO,
  frame(FRAME.headers, FLAG.endHeaders | FLAG.endStream, 1, Buffer.from([0x82, 0x86, 0x84, 0x41, 1, 0x78])),
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
  { localAddress, first = "" }: { readonly localAddress?: string; readonly first?: Uint8Array | string } = {},
): Promise<RawSocket> {
  const socket = connectTo(url, alpn, localAddress);
  const wire = new Wire(socket);
  let isOpen = false;
  socket.once("encrypted" in socket ? "secureConnect" : "connect", () => {
    isOpen = true;
  });
  if (first.length > 0) socket.write(first);
  await waitFor("the connection is open", () => wire.isClosed || isOpen);
  return {
    socket,
    send: (bytes) => void socket.write(bytes),
    sendSlowly: async (bytes) => {
      for (const byte of Buffer.from(bytes)) {
        await new Promise<void>((resolve) => socket.write(Buffer.of(byte), () => setTimeout(resolve, 1)));
      }
    },
    received: () => wire.received(),
    frames: () => framesIn(wire.received()),
    isClosed: () => wire.isClosed,
  };
}

/** The HTTP/2 frames in the bytes received so far. */
export function framesIn(bytes: Buffer): ReceivedFrame[] {
  return new FrameReader().push(bytes);
}
