import { describe, expect, it } from "vitest";
import { clientKey, type Network, parseNetwork } from "./client-address.ts";

function networks(...texts: string[]): Network[] {
  return texts.map((text) => {
    const network = parseNetwork(text);
    if (!network) throw new Error(`${text} is not a network`);
    return network;
  });
}

const from = (peer: string, forwardedFor: string | null = null, proxies: Network[] = []) =>
  clientKey({ peer, forwardedFor }, proxies);

describe("clientKey", () => {
  it.each([
    ["192.0.2.1", "192.0.2.1"],
    ["::ffff:192.0.2.1", "192.0.2.1"],
    ["::ffff:c000:201", "192.0.2.1"],
    ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"],
    ["2001:db8:1:2::", "2001:db8:1:2::/64"],
    ["2001:0DB8:0001:0002:ffff:ffff:ffff:ffff", "2001:db8:1:2::/64"],
    ["fe80::1%eth0", "fe80:0:0:0::/64"],
    ["::1", "0:0:0:0::/64"],
    ["", "unknown"],
    ["/run/socket", "unknown"],
  ])("clientKey of %s returns %s", (peer, key) => {
    expect(from(peer)).toBe(key);
  });

  it("returns different keys for neighboring networks", () => {
    expect(from("2001:db8:1:2::1")).not.toBe(from("2001:db8:1:3::1"));
    expect(from("192.0.2.1")).not.toBe(from("192.0.2.2"));
  });
});

describe("X-Forwarded-For", () => {
  const proxies = networks("10.0.0.0/8", "2001:db8:ffff::/48", "192.0.2.7");

  it.each([
    ["the header is ignored if the peer is not a proxy", "198.51.100.1", "203.0.113.5", "198.51.100.1"],
    ["a header from a proxy contains the address of the client", "10.1.2.3", "203.0.113.5", "203.0.113.5"],
    [
      "a header from a proxy with an IPv4 address in IPv6 notation contains the address of the client",
      "::ffff:10.1.2.3",
      "203.0.113.5",
      "203.0.113.5",
    ],
    [
      "a header from a proxy over IPv6 contains the address of the client",
      "2001:db8:ffff:1::9",
      "2001:db8:1:2:3::4",
      "2001:db8:1:2::/64",
    ],
    [
      "the header is read from the right, because a client can write the addresses on the left",
      "10.0.0.1",
      "1.1.1.1, 203.0.113.5",
      "203.0.113.5",
    ],
    [
      "the header is read from the right up to the first address that is not a proxy",
      "10.0.0.1",
      "1.1.1.1, 203.0.113.5, 192.0.2.7 ,10.9.9.9",
      "203.0.113.5",
    ],
    [
      "a header with only addresses of proxies identifies the leftmost proxy as the client",
      "10.0.0.1",
      "10.0.0.2,10.0.0.3",
      "10.0.0.2",
    ],
    ["the header may contain ports", "10.0.0.1", "1.1.1.1, 203.0.113.5:4711", "203.0.113.5"],
    ["the header may contain IPv6 addresses in brackets", "10.0.0.1", "[2001:db8:1:2::4]:443", "2001:db8:1:2::/64"],
    ["a header whose last entry is not an address is ignored", "10.0.0.1", "1.1.1.1, unknown", "10.0.0.1"],
    ["a header with an address in hexadecimal notation is ignored", "10.0.0.1", "0x7f.1", "10.0.0.1"],
    ["a header with an address in octal notation is ignored", "10.0.0.1", "0177.0.0.01", "10.0.0.1"],
    [
      "a header with an empty entry identifies the proxy to the right of the entry as the client",
      "10.0.0.1",
      "1.1.1.1,,10.0.0.2",
      "10.0.0.2",
    ],
    ["an empty header is ignored", "10.0.0.1", "", "10.0.0.1"],
    ["a header with commas only is ignored", "10.0.0.1", ",,,", "10.0.0.1"],
    ["a header from an unknown peer is ignored", "", "203.0.113.5", "unknown"],
  ])("%s", (_title, peer, forwardedFor, key) => {
    expect(from(peer, forwardedFor, proxies)).toBe(key);
  });

  it("the header is ignored without a trusted proxy", () => {
    expect(from("10.0.0.1", "203.0.113.5")).toBe("10.0.0.1");
  });

  it("the header identifies the leftmost address as the client if every address is trusted", () => {
    expect(from("10.0.0.1", "203.0.113.5", networks("0.0.0.0/0"))).toBe("203.0.113.5");
    expect(from("2001:db8::1", "2001:db8:9::1", networks("::/0"))).toBe("2001:db8:9:0::/64");
  });
});

describe("networks", () => {
  it.each(["10.0.0.0/8", "10.0.0.1", "::1", "fd00::/8", "::ffff:10.0.0.0/104", "0.0.0.0/0"])(
    "a network may be %s",
    (text) => {
      expect(parseNetwork(text)).toBeDefined();
    },
  );

  it("the network ::ffff:10.0.0.0/104 contains the address 10.1.2.3", () => {
    expect(from("10.1.2.3", "203.0.113.5", networks("::ffff:10.0.0.0/104"))).toBe("203.0.113.5");
  });

  it.each(["", "10.0.0.0/33", "10.0.0/8", "::/129", "example.com", "10.0.0.0/", "10/8", "0x0a.0.0.1", "10.0.0.0/8 "])(
    "a network may not be %j",
    (text) => {
      expect(parseNetwork(text)).toBeUndefined();
    },
  );
});
