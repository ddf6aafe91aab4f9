import type { Http2Session } from "node:http2";

/** The addresses of the clients of sessions. A session that has ended tells its own no more. */
const addresses = new WeakMap<Http2Session, string>();

/** Notes the address of the client of a session. Call it when the session begins. */
export function notePeer(session: Http2Session, address: string | undefined): void {
  addresses.set(session, plainAddress(address));
}

/** The address of the client of a session; empty when it is not known. */
export function peerOfSession(session: Http2Session | undefined): string {
  return (session && addresses.get(session)) ?? "";
}

/** An IP address as people write it: a port for both families shows IPv4 addresses as IPv6 ones; empty: unknown. */
export function plainAddress(address: string | undefined): string {
  return address?.replace(/^::ffff:(?=\d+\.)/i, "") ?? "";
}
