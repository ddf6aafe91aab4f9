import { Resolver } from "node:dns/promises";
import { once } from "node:events";
import http, { type IncomingMessage } from "node:http";
import https from "node:https";
import { isIP, type LookupFunction } from "node:net";
import type { Network } from "../domain/client-address.ts";
import { DELIVERY_TIMEOUT_MS, type DeliveryOutcome, type SendResult } from "../domain/webhook.ts";
import { isAllowedAddress, LOOPBACK } from "../domain/webhook-url.ts";

/** The maximum size of a response body, in bytes. If the body is longer, the service closes the connection. */
export const MAX_ANSWER_BYTES = 4096;

/**
 * The maximum time for reading the body of a response, in milliseconds. After this time, the service closes the
 * connection.
 */
const BODY_MS = 1000;

/**
 * The maximum number of informational responses (1xx) to a request. If the endpoint exceeds this number, the service
 * closes the connection.
 */
const MAX_INFORMATION = 10;

const IDLE_MS = 5000;

/** The timeout of a DNS query, in milliseconds, and the maximum number of attempts. */
const DNS_TIMEOUT_MS = 2000;
const DNS_TRIES = 2;

/** Resolves a host name to its addresses. If the name has no addresses, returns an empty list or rejects. */
type Resolve = (host: string) => Promise<readonly string[]>;

export interface Message {
  readonly url: string;
  readonly headers: { readonly [name: string]: string };
  readonly body: string;
}

export interface SenderOptions {
  /** The non-public networks to which the sender may connect. */
  readonly allowed: readonly Network[];
  /**
   * Resolves host names. Default: queries DNS with a `Resolver` of Node. Slow queries of a `Resolver` do not block the
   * thread pool. Slow calls of `dns.lookup` would block it.
   */
  readonly resolve?: Resolve | undefined;
  /** The maximum time from the name lookup to the response headers, in milliseconds. Default: `DELIVERY_TIMEOUT_MS`. */
  readonly timeoutMs?: number | undefined;
}

/** A failure before a response arrived. `outcome` is the class of the failure. */
class SendFailure extends Error {
  readonly outcome: DeliveryOutcome;
  constructor(outcome: DeliveryOutcome) {
    super(outcome);
    this.outcome = outcome;
  }
}

interface Limit {
  readonly ended: AbortSignal;
  /** The time at which the timeout ends, by `performance.now()`. */
  readonly until: number;
}

/**
 * Sends messages to one endpoint, and keeps the connection open. Each attempt resolves the host name, checks the
 * addresses, and connects only to the checked addresses. HTTP clients usually look up the name again for the
 * connection, and could then get an address that was not checked. The sender does not follow redirects.
 */
export class Sender {
  private readonly allowed: readonly Network[];
  private readonly resolve: Resolve;
  private readonly timeoutMs: number;
  private readonly agents: { readonly "http:": http.Agent; readonly "https:": https.Agent };

  constructor({ allowed, resolve = resolveByDns, timeoutMs = DELIVERY_TIMEOUT_MS }: SenderOptions) {
    this.allowed = allowed;
    this.resolve = resolve;
    this.timeoutMs = timeoutMs;
    const options = { keepAlive: true, maxSockets: 1, timeout: IDLE_MS };
    this.agents = { "http:": new http.Agent(options), "https:": new https.Agent(options) };
  }

  /** Sends a message. Rejects only if `signal` aborts, with the reason of the signal. */
  async send(message: Message, signal?: AbortSignal): Promise<SendResult> {
    signal?.throwIfAborted();
    const started = performance.now();
    const ended = new AbortController();
    const abort = () => ended.abort();
    const aborted = once(ended.signal, "abort").then(() => Promise.reject<never>(ended.signal.reason));
    const timer = setTimeout(abort, this.timeoutMs);
    signal?.addEventListener("abort", abort, { once: true });
    const result = (outcome: DeliveryOutcome, status?: number): SendResult => ({
      outcome,
      status,
      durationMs: performance.now() - started,
    });
    try {
      const limit = { ended: ended.signal, until: started + this.timeoutMs };
      const status = await Promise.race([this.statusOf(message, limit), aborted]);
      if (status >= 200 && status < 300) return result("delivered", status);
      return result(status >= 300 && status < 400 ? "redirect" : "status", status);
    } catch (error) {
      signal?.throwIfAborted();
      if (ended.signal.aborted) return result("timeout");
      return result(error instanceof SendFailure ? error.outcome : outcomeOf(error));
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
    }
  }

  close(): void {
    for (const agent of Object.values(this.agents)) agent.destroy();
  }

  /** Sends a message, and returns the HTTP status. @throws SendFailure, or the error of the connection */
  private async statusOf(message: Message, limit: Limit): Promise<number> {
    const addresses = await this.addressesOf(new URL(message.url).hostname);
    return this.request(message, addresses, limit).catch((error: unknown) => {
      // If the endpoint closed the idle connection just before this request, send the request on a new connection.
      const isStale = (error as { isReused?: boolean }).isReused === true;
      if (!isStale) throw error;
      return this.request(message, addresses, limit);
    });
  }

  /** @throws SendFailure if the host has no address, or if one of its addresses is not allowed */
  private async addressesOf(hostname: string): Promise<readonly string[]> {
    const host = hostname.replace(/^\[|\]$/g, "");
    const isAllowed = (address: string) => isAllowedAddress(address, this.allowed);
    // For `localhost`, ignore the addresses that are not allowed.
    const loopback = LOOPBACK.get(hostname)?.filter(isAllowed);
    const addresses = loopback ?? (isIP(host) !== 0 ? [host] : await this.resolve(host).catch(() => []));
    if (addresses.length === 0) throw new SendFailure(loopback ? "address" : "name");
    if (!addresses.every(isAllowed)) throw new SendFailure("address");
    return addresses;
  }

  private async request(
    { url, headers, body }: Message,
    addresses: readonly string[],
    { ended, until }: Limit,
  ): Promise<number> {
    ended.throwIfAborted();
    // If the operating system suspended this process, the timeout may have passed although its timer has not fired yet.
    if (performance.now() > until) throw new SendFailure("timeout");
    const isPlain = url.startsWith("http:");
    return new Promise((resolve, reject) => {
      const request = (isPlain ? http : https).request(url, {
        method: "POST",
        agent: this.agents[isPlain ? "http:" : "https:"],
        headers: { ...headers, "content-length": String(Buffer.byteLength(body)) },
        lookup: lookupOf(addresses),
        signal: ended,
      });
      request.on("error", (error) => reject(Object.assign(error, { isReused: request.reusedSocket })));
      let informations = 0;
      request.on("information", () => {
        if (++informations > MAX_INFORMATION) request.destroy();
      });
      // Without this listener, the request would emit no event after a response with status 101, even if `signal`
      // aborts.
      request.on("upgrade", ({ statusCode = 0 }, socket) => {
        socket.destroy();
        resolve(statusCode);
      });
      request.on("response", (response) => {
        drop(response);
        resolve(response.statusCode ?? 0);
      });
      request.end(body);
    });
  }
}

/**
 * Reads and ignores a body, so that the connection can be reused. Closes the connection if the body is longer than
 * `MAX_ANSWER_BYTES`, or is incomplete after `BODY_MS`.
 */
function drop(response: IncomingMessage): void {
  let bytes = 0;
  const timer = setTimeout(() => response.destroy(), BODY_MS);
  response.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > MAX_ANSWER_BYTES) response.destroy();
  });
  // Ignore errors, because the result of the attempt depends only on the status.
  response.on("error", () => {});
  response.on("close", () => clearTimeout(timer));
}

/**
 * Creates the option `lookup` of `http.request`. This function returns the checked addresses, and does not query DNS.
 */
function lookupOf(addresses: readonly string[]): LookupFunction {
  const found = addresses.map((address) => ({ address, family: address.includes(":") ? 6 : 4 }));
  return (_host, { all }, done) => {
    const [first] = found;
    if (all) done(null, found);
    else done(null, first?.address ?? "", first?.family);
  };
}

async function resolveByDns(host: string): Promise<readonly string[]> {
  const resolver = new Resolver({ timeout: DNS_TIMEOUT_MS, tries: DNS_TRIES });
  const queries = [resolver.resolve4(host), resolver.resolve6(host)];
  const found = await Promise.all(queries.map((query) => query.catch(() => [])));
  return found.flat();
}

/** Returns the class of a connection error: `tls` for errors of certificates and of TLS, otherwise `connection`. */
function outcomeOf(error: unknown): DeliveryOutcome {
  const { code = "" } = error as { code?: string };
  return /CERT|TLS|SSL|SELF_SIGNED|UNABLE_TO|HOSTNAME/.test(code) ? "tls" : "connection";
}
