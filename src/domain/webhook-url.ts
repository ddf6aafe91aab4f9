import ipaddr from "ipaddr.js";
import { isOneOf, type Network, parseAddress } from "./client-address.ts";
import { WebhookUrlRefused } from "./errors.ts";

const MAX_URL_LENGTH = 2048;

const PUBLIC_IPV6 = ipaddr.IPv6.parseCIDR("2000::/3");

/**
 * Returns whether the service may connect to an address. The address must be a public unicast address, or must be in
 * `allowed`. All public IPv6 addresses are in 2000::/3. If an IPv6 address is an IPv4-mapped address, the rules for its
 * IPv4 address apply. Other IPv6 addresses that contain an IPv4 address (NAT64, 6to4, Teredo) are not public.
 */
export function isAllowedAddress(text: string, allowed: readonly Network[]): boolean {
  const address = parseAddress(text);
  if (!address) return false;
  const isPublic = address.range() === "unicast" && (!(address instanceof ipaddr.IPv6) || address.match(PUBLIC_IPV6));
  return isPublic || isOneOf(allowed, address);
}

/**
 * The loopback hosts and their addresses. A webhook URL with one of these hosts may have the scheme `http`. The service
 * does not query DNS for these hosts, because a DNS server may have no address for `localhost`.
 */
export const LOOPBACK: ReadonlyMap<string, readonly string[]> = new Map([
  ["localhost", ["127.0.0.1", "::1"]],
  ["127.0.0.1", ["127.0.0.1"]],
  ["[::1]", ["::1"]],
]);

/**
 * Parses and normalizes the URL of a webhook. The scheme must be `https`. If the host is a loopback host with an
 * address in `allowed`, the scheme may be `http`.
 *
 * @throws WebhookUrlRefused
 */
export function parseWebhookUrl(text: string, allowed: readonly Network[]): string {
  if (!URL.canParse(text)) throw new WebhookUrlRefused("must be a URL, such as https://example.com/webhooks");
  const { protocol, hostname, username, password, hash, href } = new URL(text);
  const isLoopback = LOOPBACK.get(hostname)?.some((address) => isAllowedAddress(address, allowed)) ?? false;
  if (protocol !== "https:" && !(protocol === "http:" && isLoopback))
    throw new WebhookUrlRefused(
      "must start with https://. For development, http://localhost is allowed if WEBHOOK_ALLOW contains 127.0.0.1",
    );
  if (username !== "" || password !== "") throw new WebhookUrlRefused("must not contain a user name or a password");
  if (hash !== "") throw new WebhookUrlRefused("must not contain a fragment (#)");
  if (href.length > MAX_URL_LENGTH) throw new WebhookUrlRefused(`must have at most ${MAX_URL_LENGTH} characters`);
  if (parseAddress(hostname) && !isAllowedAddress(hostname, allowed))
    throw new WebhookUrlRefused("must not contain a private or reserved address that is not in WEBHOOK_ALLOW");
  return href;
}
