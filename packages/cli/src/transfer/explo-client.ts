import { setTimeout } from "node:timers/promises";
import { isObject } from "../../../operator/src/fields.ts";
import { unreachable } from "../connection/call-failure.ts";
import { EXIT, Failure } from "../failures.ts";

/*
 * The hosted service's list of customers, as its documentation has it:
 * https://docs.explo.co/api-reference/customer-api/customers-v2 and https://docs.explo.co/security/rate-limits
 */

/** A page of the list. */
interface ExploPage {
  readonly customers: readonly unknown[];
  /** How many customers there are in all; undefined when the page does not say. */
  readonly total: number | undefined;
}

/** How the list is read. */
export interface ExploClientOptions {
  readonly url: URL;
  readonly token: string;
  readonly pageSize: number;
  readonly signal: AbortSignal;
  /** The variable with a proxy that is not used. */
  readonly unusedProxy: string | undefined;
  /** Called for every pause of a second or more. */
  readonly onPause: (pauseMs: number, reason: string) => void;
}

/** The largest page that is read, in bytes. */
const MAX_PAGE_BYTES = 128 * 1024 * 1024;
/** How long a page may take, in milliseconds. */
const TIMEOUT_MS = 120_000;

/**
 * The hosted service allows 180 requests a minute from an address, which other programs there need as well. So many
 * requests are made at once, and then one at a time with this many milliseconds between.
 */
const BURST = 30;
const PACE_MS = 500;

/** How often a page may fail, and how often it may be refused because of too many requests. */
const MAX_TRIES = 8;
const MAX_REFUSALS = 30;
/** The longest pause after a failure, in milliseconds. */
const MAX_PAUSE_MS = 30_000;
/** How long to wait when a refusal does not say, and the longest wait that it may ask for, in milliseconds. */
const LIMITED_MS = 60_000;
const MAX_LIMITED_MS = 15 * 60_000;

/** Reads pages of the hosted service's list of customers. */
export class ExploClient {
  readonly #options: ExploClientOptions;
  #hasAnswered = false;
  #requests = 0;
  #lastAt = 0;

  constructor(options: ExploClientOptions) {
    this.#options = options;
  }

  /** A page, counted from 1; undefined: the list has ended before it. @throws Failure */
  async page(number: number): Promise<ExploPage | undefined> {
    const { url, pageSize, onPause } = this.#options;
    const target = new URL("v2/api/customers/", url.href.endsWith("/") ? url : `${url.href}/`);
    target.search = new URLSearchParams({ page: String(number), page_size: String(pageSize) }).toString();
    for (let [failures, refusals] = [0, 0]; ; ) {
      const answer = await this.#get(target);
      if ("value" in answer) return pageOf(answer.value, url);
      // The page after the last one.
      if (answer.status === 404 && number > 1) return undefined;
      if (answer.status === 429) refusals += 1;
      else failures += 1;
      if (answer.retryMs === undefined || failures === MAX_TRIES || refusals === MAX_REFUSALS) throw answer.failure;
      const pauseMs = answer.retryMs || Math.min(MAX_PAUSE_MS, 250 * 2 ** failures);
      onPause(pauseMs, answer.failure.message);
      await this.#pause(pauseMs);
    }
  }

  async #get(target: URL): Promise<Answer> {
    const { token, signal, url } = this.#options;
    await this.#keepPace();
    const where = url.href.replace(/\/$/, "");
    try {
      const response = await fetch(target, {
        headers: { "explo-authorization": `Token ${token}`, accept: "application/json" },
        // The token must not be sent to another URL.
        redirect: "manual",
        signal: AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]),
      });
      const { status } = response;
      this.#hasAnswered = true;
      if (status !== 200) {
        await response.body?.cancel();
        return refusal(status, response.headers, where);
      }
      const text = await bodyOf(response, where);
      try {
        return { value: JSON.parse(text) as unknown };
      } catch {
        return { status, failure: failed(`${where} answered no JSON`, "check --explo-url"), retryMs: undefined };
      }
    } catch (error) {
      if (error instanceof Failure) throw error;
      signal.throwIfAborted();
      const found = unreachable(url, error, this.#options.unusedProxy);
      const failure = found
        ? failed(found.message, found.hint)
        : failed(`cannot reach ${where}: ${(error as Error).message}`, "try again");
      // Before its first answer the URL may be wrong: then waiting is of no use.
      const isFinal = found !== undefined && !this.#hasAnswered && found.fault !== "reset";
      return { status: 0, failure, retryMs: isFinal ? undefined : 0 };
    }
  }

  async #keepPace(): Promise<void> {
    this.#requests += 1;
    const waitMs = this.#requests <= BURST ? 0 : this.#lastAt + PACE_MS - performance.now();
    if (waitMs > 0) await this.#pause(waitMs);
    this.#lastAt = performance.now();
  }

  async #pause(ms: number): Promise<void> {
    const { signal } = this.#options;
    await setTimeout(ms, undefined, { signal }).catch(() => signal.throwIfAborted());
  }
}

/** The result of a request: JSON, or why there is none and after how many milliseconds to repeat it; 0: soon. */
type Answer =
  | { readonly value: unknown }
  | { readonly status: number; readonly failure: Failure; readonly retryMs: number | undefined };

function refusal(status: number, headers: Headers, where: string): Answer {
  if (status === 401 || status === 403) {
    const hint = "check that the token was copied whole, and is one of the API of the hosted service";
    const failure = new Failure(`${where} refuses the token (${status})`, { exitCode: EXIT.denied, hint });
    return { status, failure, retryMs: undefined };
  }
  if (status === 429) {
    const failure = failed(`${where} was asked too often (429)`, "try again in some minutes");
    return { status, failure, retryMs: Math.min(MAX_LIMITED_MS, retryAfterMs(headers) ?? LIMITED_MS) };
  }
  const isPassing = status >= 500 || status === 408;
  const moved = headers.get("location");
  const hint = isPassing
    ? "try again"
    : moved
      ? "give the place that it has moved to as --explo-url"
      : "check --explo-url";
  return { status, failure: failed(`${where} answered ${status}`, hint), retryMs: isPassing ? 0 : undefined };
}

/** What `Retry-After` asks for, in milliseconds (RFC 9110, 10.2.3); undefined: nothing. */
function retryAfterMs(headers: Headers): number | undefined {
  const text = headers.get("retry-after");
  if (text === null) return undefined;
  const ms = /^\d+$/.test(text) ? Number(text) * 1000 : Date.parse(text) - Date.now();
  return Number.isNaN(ms) ? undefined : Math.max(ms, 100);
}

async function bodyOf(response: Response, where: string): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of response.body ?? []) {
    bytes += chunk.length;
    if (bytes > MAX_PAGE_BYTES)
      throw failed(`a page of ${where} is larger than 128 MiB`, "give a lower --explo-page-size");
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}

function pageOf(value: unknown, { href }: URL): ExploPage {
  const results = isObject(value) ? value["results"] : undefined;
  const customers = isObject(results) ? results["customers"] : undefined;
  if (!isObject(value) || !Array.isArray(customers))
    throw failed(`${href} answered something else than a list of customers`, "check --explo-url");
  const total = value["total_count"] ?? value["count"];
  return { customers, total: typeof total === "number" ? total : undefined };
}

function failed(message: string, hint: string): Failure {
  return new Failure(message, { exitCode: EXIT.unavailable, hint });
}
