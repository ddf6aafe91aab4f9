import type { Http2Session } from "node:http2";

/** The client address of each session. A session that has ended no longer has its socket. */
const addresses = new WeakMap<Http2Session, string>();

/** Records the client address of a new session. */
export function recordPeer(session: Http2Session, address: string | undefined): void {
  addresses.set(session, plainAddress(address));
}

/** The address of the client of a session; empty when it is not known. */
export function peerOfSession(session: Http2Session | undefined): string {
  return (session && addresses.get(session)) ?? "";
}

/** Removes the IPv6 prefix that a dual-stack socket adds to IPv4 addresses. Empty when the address is not known. */
export function plainAddress(address: string | undefined): string {
  return address?.replace(/^::ffff:(?=\d+\.)/i, "") ?? "";
}
