import ipaddr from "ipaddr.js";

/**
 * An IP address or an IP network. The number is the length of the network prefix, in bits. For an address, the number
 * is 32 or 128.
 */
export type Network = [ipaddr.IPv4 | ipaddr.IPv6, number];

/** The number of 16-bit groups in an IPv6 network prefix. A host can choose the other 64 bits (RFC 4291, 2.5.1). */
export const IPV6_PREFIX_HEXTETS = 4;

/** Matches an address with a port. Some proxies write such addresses to `X-Forwarded-For`. */
const WITH_PORT = /^(?:\[([^\]]+)\](?::\d+)?|(\d+(?:\.\d+){3}):\d+)$/;

const MAX_LENGTH = 80;

/** Parses an address, or a network in CIDR notation. Returns undefined for any other text. */
export function parseNetwork(text: string): Network | undefined {
  const single = parsePlain(text);
  if (single) return [single, single.kind() === "ipv4" ? 32 : 128];
  if (!ipaddr.IPv4.isValidCIDRFourPartDecimal(text) && !ipaddr.IPv6.isValidCIDR(text)) return undefined;
  const [address, bits] = ipaddr.parseCIDR(text);
  // The text is an IPv4 network in IPv6 notation.
  if (address.kind() === "ipv6" && (address as ipaddr.IPv6).isIPv4MappedAddress() && bits >= 96) {
    return [(address as ipaddr.IPv6).toIPv4Address(), bits - 96];
  }
  return [address, bits];
}

export interface Origin {
  /** The address of the connection. Empty if the address is unknown. */
  readonly peer: string;
  /** The value of the header `X-Forwarded-For`. Null if the header is missing. */
  readonly forwardedFor: string | null;
}

/**
 * Returns the key under which the service counts the failures and resources of a client: the IPv4 address, or the /64
 * network of the IPv6 address.
 */
export function clientKey(origin: Origin, proxies: readonly Network[]): string {
  const address = clientOf(origin, proxies);
  return address ? keyOf(address) : "unknown";
}

/**
 * Returns the client key of a connection that has no request yet. Returns undefined for a trusted proxy, because its
 * connection carries requests of many clients.
 */
export function connectionKey(peer: string, proxies: readonly Network[]): string | undefined {
  const address = parseAddress(peer);
  if (!address) return "unknown";
  return isOneOf(proxies, address) ? undefined : keyOf(address);
}

/** Returns the address of a client. Returns an empty text if the address is unknown. */
export function clientAddress(origin: Origin, proxies: readonly Network[]): string {
  return clientOf(origin, proxies)?.toString() ?? "";
}

/**
 * Returns the rightmost address in `X-Forwarded-For` that is not a trusted proxy. A client can forge all addresses to
 * the left of this address. If the peer is not a trusted proxy, returns the address of the peer.
 */
function clientOf({ peer, forwardedFor }: Origin, proxies: readonly Network[]) {
  let address = parseAddress(peer);
  if (!address) return undefined;
  let end = forwardedFor?.length ?? 0;
  while (end > 0 && isOneOf(proxies, address)) {
    const comma = forwardedFor?.lastIndexOf(",", end - 1) ?? -1;
    const text = forwardedFor?.slice(comma + 1, end).trim() ?? "";
    const next = parseAddress(text);
    // The entry is not an address, so the proxy that added the entry counts as the client.
    if (!next) break;
    address = next;
    end = comma;
  }
  return address;
}

export function isOneOf(networks: readonly Network[], address: ipaddr.IPv4 | ipaddr.IPv6): boolean {
  return networks.some(([network, bits]) => network.kind() === address.kind() && address.match(network, bits));
}

/** Parses the address of a connection, or an entry of `X-Forwarded-For`. */
export function parseAddress(text: string): ipaddr.IPv4 | ipaddr.IPv6 | undefined {
  if (text.length > MAX_LENGTH) return undefined;
  const [, ipv6, ipv4] = WITH_PORT.exec(text) ?? [];
  return parsePlain(ipv6 ?? ipv4 ?? text);
}

/** Parses an address, and converts an IPv4 address in IPv6 notation to IPv4. */
function parsePlain(text: string): ipaddr.IPv4 | ipaddr.IPv6 | undefined {
  return ipaddr.IPv4.isValidFourPartDecimal(text) || ipaddr.IPv6.isValid(text) ? ipaddr.process(text) : undefined;
}

function keyOf(address: ipaddr.IPv4 | ipaddr.IPv6): string {
  if (address.kind() === "ipv4") return address.toString();
  const network = (address as ipaddr.IPv6).parts.slice(0, IPV6_PREFIX_HEXTETS);
  return `${network.map((hextet) => hextet.toString(16)).join(":")}::/64`;
}
