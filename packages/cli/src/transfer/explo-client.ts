import { setTimeout } from "node:timers/promises";
import { Code, ConnectError } from "@connectrpc/connect";
import { retryAfterMs } from "@user-group-service/client";
import { isObject } from "../../../operator/src/fields.ts";
import { unreachable } from "../connection/call-failure.ts";
import { EXIT, Failure } from "../failures.ts";
import { parsedJson } from "../json.ts";
import { urlText } from "../settings.ts";
import { Patience, type PatienceOptions } from "./patience.ts";

interface ExploPage {
  readonly customers: readonly unknown[];
  /** The number of all customers. Undefined if the response does not contain it. */
  readonly total: number | undefined;
}

interface ExploClientOptions extends PatienceOptions {
  readonly url: URL;
  readonly token: string;
  readonly pageSize: number;
  readonly unusedProxy: string | undefined;
}

const TIMEOUT_MS = 120_000;

/**
 * The first `BURST` requests have no pause between them. Each later request starts at least `PACE_MS` after the
 * previous request. The hosted service allows 180 requests per minute from an address. Other programs at the same
 * address need a part of these requests.
 */
const BURST = 30;
const PACE_MS = 500;

const MAX_REFUSALS = 30;
/** The default and the maximum of the pause after a rate-limit response, in milliseconds. */
const LIMITED_MS = 60_000;
const MAX_LIMITED_MS = 15 * 60_000;

/**
 * Reads pages of the customer list (https://docs.explo.co/api-reference/customer-api/customers-v2). The hosted service
 * limits the rate of requests (https://docs.explo.co/security/rate-limits).
 */
export class ExploClient {
  readonly #options: ExploClientOptions;
  #hasAnswered = false;
  #requests = 0;
  #lastAt = 0;

  constructor(options: ExploClientOptions) {
    this.#options = options;
  }

  /**
   * Reads a page of the list. The first page has the number 1.
   *
   * @returns undefined after the last page
   * @throws Failure if the request fails and another retry does not help
   */
  async page(number: number): Promise<ExploPage | undefined> {
    const { url, pageSize } = this.#options;
    const target = new URL("v2/api/customers/", url.href.endsWith("/") ? url : `${url.href}/`);
    target.search = new URLSearchParams({ page: String(number), page_size: String(pageSize) }).toString();
    const patience = new Patience(this.#options);
    for (let refusals = 0; ; ) {
      const answer = await this.#get(target);
      if ("value" in answer) return pageOf(answer.value, url);
      const { status, failure, retryMs } = answer;
      if (status === 404 && number > 1) return undefined;
      if (status === 429) refusals += 1;
      if (retryMs === undefined || refusals === MAX_REFUSALS) throw failure;
      await patience.pause(failure, failure.message, retryMs);
    }
  }

  async #get(target: URL): Promise<Answer> {
    const { token, signal, url } = this.#options;
    await this.#keepPace();
    const where = urlText({ url });
    try {
      const response = await fetch(target, {
        headers: { "explo-authorization": `Token ${token}`, accept: "application/json" },
        // A redirect would send the token to another host.
        redirect: "manual",
        signal: AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]),
      });
      const { status } = response;
      this.#hasAnswered = true;
      if (status !== 200) {
        await response.body?.cancel();
        return refusal(status, response.headers, where);
      }
      const value = parsedJson(await response.text());
      if (value === undefined) throw failed(`${where} did not return JSON`, "check --explo-url");
      return { value };
    } catch (error) {
      if (error instanceof Failure) throw error;
      signal.throwIfAborted();
      const found = unreachable(url, error, this.#options.unusedProxy);
      const failure = found
        ? failed(found.message, found.hint)
        : failed(`cannot reach ${where}: ${(error as Error).message}`, "try again");
      // If the hosted service has not responded yet, do not retry, because the URL may be wrong.
      const isFinal = found !== undefined && !this.#hasAnswered && found.fault !== "reset";
      return { status: 0, failure, retryMs: isFinal ? undefined : 0 };
    }
  }

  async #keepPace(): Promise<void> {
    this.#requests += 1;
    const waitMs = this.#requests <= BURST ? 0 : this.#lastAt + PACE_MS - performance.now();
    if (waitMs > 0) await setTimeout(waitMs, undefined, { signal: this.#options.signal });
    this.#lastAt = performance.now();
  }
}

/** `retryMs` is the minimum pause before a retry, in milliseconds. Undefined if a retry does not help. */
type Answer =
  | { readonly value: unknown }
  | { readonly status: number; readonly failure: Failure; readonly retryMs: number | undefined };

function refusal(status: number, headers: Headers, where: string): Answer {
  if (status === 401 || status === 403) {
    const hint = "check that the token was copied completely, and is an API token of the hosted service";
    const failure = new Failure(`${where} rejects the token (${status})`, { exitCode: EXIT.denied, hint });
    return { status, failure, retryMs: undefined };
  }
  if (status === 429) {
    const failure = failed(`${where} limits the rate of requests (429)`, "try again in a few minutes");
    const requestedMs = retryAfterMs(new ConnectError("", Code.ResourceExhausted, headers));
    return { status, failure, retryMs: Math.min(MAX_LIMITED_MS, requestedMs ?? LIMITED_MS) };
  }
  const isTemporary = status >= 500 || status === 408;
  const moved = headers.get("location");
  const hint = isTemporary
    ? "try again"
    : moved
      ? "the hosted service redirects: give the new URL as --explo-url"
      : "check --explo-url";
  return { status, failure: failed(`${where} responded with ${status}`, hint), retryMs: isTemporary ? 0 : undefined };
}

function pageOf(value: unknown, { href }: URL): ExploPage {
  const results = isObject(value) ? value["results"] : undefined;
  const customers = isObject(results) ? results["customers"] : undefined;
  if (!isObject(value) || !Array.isArray(customers))
    throw failed(`${href} did not return a list of customers`, "check --explo-url");
  const total = value["total_count"] ?? value["count"];
  return { customers, total: typeof total === "number" ? total : undefined };
}

function failed(message: string, hint: string): Failure {
  return new Failure(message, { exitCode: EXIT.unavailable, hint });
}
