import { describe, expect, it } from "vitest";
import { type Network, parseNetwork } from "./client-address.ts";
import { isAllowedAddress, parseWebhookUrl } from "./webhook-url.ts";

const networks = (...texts: string[]) => texts.map((text) => parseNetwork(text) as Network);

describe("addresses", () => {
  it.each(["93.184.215.14", "8.8.8.8", "2606:4700:4700::1111", "::ffff:8.8.8.8"])("%s is public", (address) => {
    expect(isAllowedAddress(address, [])).toBe(true);
  });

  it.each([
    ...["0.0.0.0", "10.0.0.1", "100.64.0.1", "127.0.0.1", "127.1.2.3", "169.254.169.254", "172.16.0.1", "192.168.1.1"],
    ...["192.0.0.1", "192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "240.0.0.1"],
    ...["255.255.255.255", "::", "::1", "fe80::1", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1", "100::1"],
    ...["::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:a9fe:a9fe", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1"],
    ...["2002:a9fe:a9fe::1", "2001::1", "2001:db8::1", "::ffff:0:a9fe:a9fe", "", "x", "fe80::1%eth0"],
    ...["::127.0.0.1", "::a00:1", "1000::1", "4000::1"],
  ])("%s is not public", (address) => {
    expect(isAllowedAddress(address, [])).toBe(false);
  });

  it("an address is allowed if it is public, or if WEBHOOK_ALLOW contains its network", () => {
    const allowed = networks("10.20.0.0/16", "fd00::/8");
    const of = (address: string) => isAllowedAddress(address, allowed);
    expect([of("10.20.1.1"), of("::ffff:10.20.1.1"), of("fd12::1"), of("8.8.8.8")]).toEqual([true, true, true, true]);
    expect([of("10.21.1.1"), of("fc00::1"), of("127.0.0.1")]).toEqual([false, false, false]);
  });
});

describe("webhook URLs", () => {
  it.each([
    ["https://example.com", "https://example.com/"],
    ["HTTPS://EXAMPLE.com:443/a?b=c", "https://example.com/a?b=c"],
    ["https://8.8.8.8:8443/", "https://8.8.8.8:8443/"],
    ["https://[2606:4700:4700::1111]/", "https://[2606:4700:4700::1111]/"],
    // Every JavaScript object has properties with these names, so a look-up of the host in an object would succeed.
    ["https://constructor/", "https://constructor/"],
    ["https://__proto__/", "https://__proto__/"],
  ])("%s is allowed, and is normalized to %s", (text, url) => {
    expect(parseWebhookUrl(text, [])).toBe(url);
  });

  it("the URL of a webhook may begin with http:// if its host is a loopback host in WEBHOOK_ALLOW", () => {
    for (const url of ["http://localhost:3000/", "http://127.0.0.1:3000/"]) {
      expect(parseWebhookUrl(url, networks("127.0.0.1"))).toBe(url);
      expect(() => parseWebhookUrl(url, networks("10.0.0.0/8"))).toThrow("must start with https://");
    }
    expect(parseWebhookUrl("http://[::1]:3000/", networks("::1"))).toBe("http://[::1]:3000/");
    for (const url of ["http://example.com/", "http://10.0.0.1/", "http://localhost.example.com/"]) {
      expect(() => parseWebhookUrl(url, networks("127.0.0.1", "10.0.0.0/8"))).toThrow("must start with https://");
    }
  });

  it.each([
    ["", "must be a URL"],
    ["example.com/hooks", "must be a URL"],
    ["https://", "must be a URL"],
    ["javascript:alert(1)", "must start with https://"],
    ["https://user@example.com/", "must not contain a user name"],
    ["https://:secret@example.com/", "must not contain a user name"],
    ["https://example.com/#a", "must not contain a fragment"],
    ["https://0x7f.1/", "must not contain a private or reserved address"],
    ["https://[::ffff:10.0.0.1]/", "must not contain a private or reserved address"],
    [`https://example.com/${"é".repeat(1000)}`, "must have at most 2048 characters"],
  ])("%s is refused with the reason: %s", (text, why) => {
    expect(() => parseWebhookUrl(text, [])).toThrow(why);
  });
});
