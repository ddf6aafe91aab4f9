import { setTimeout } from "node:timers/promises";
import { Code, ConnectError } from "@connectrpc/connect";
import { retryAfterMs } from "@user-group-service/client";
import { isObject } from "../../../operator/src/fields.ts";
import { unreachable } from "../connection/call-failure.ts";
import { EXIT, Failure } from "../failures.ts";
import { parsedJson } from "../json.ts";
import { urlText } from "../settings.ts";
import { type PatienceOptions, patiently } from "./patience.ts";

interface ExploPage {
  readonly customers: readonly unknown[];
  /** The number of all customers. Undefined if the response does not contain this number. */
  readonly total: number | undefined;
}

interface ExploOptions extends PatienceOptions {
  readonly url: URL;
  readonly token: string;
  readonly pageSize: number;
  readonly unusedProxy: string | undefined;
}

/** The maximum size of a page. A larger response could fill the memory. */
const MAX_PAGE_BYTES = 128 * 1024 * 1024;
const TIMEOUT_MS = 120_000;

/**
 * The first `BURST` requests have no pause between them. Each later request starts at least `PACE_MS` after the
 * previous request. The hosted service (Explo) allows 180 requests per minute from an IP address. `ugs` sends at most
 * 150 requests per minute, so that other programs at the same address can also send requests.
 */
const BURST = 30;
const PACE_MS = 500;

/** The default pause after a rate-limit response, in seconds. */
const LIMITED_S = 60;
const MAX_REFUSALS = 30;

/**
 * Returns a function that takes a page number, and reads this page of the customer list
 * (https://docs.explo.co/api-reference/customer-api/customers-v2). The first page has the number 1. For a number after
 * the last page, the function returns undefined. The hosted service limits the rate of requests
 * (https://docs.explo.co/security/rate-limits).
 *
 * @throws Failure if a retry of a failed request would also fail, or if the time for retries has passed
 */
export function exploPages({ url, token, pageSize, unusedProxy, ...patience }: ExploOptions) {
  const { signal } = patience;
  let hasAnswered = false;
  let [requests, lastAt] = [0, 0];

  async function keepPace(): Promise<void> {
    requests += 1;
    const waitMs = requests <= BURST ? 0 : lastAt + PACE_MS - performance.now();
    if (waitMs > 0) await setTimeout(waitMs, undefined, { signal });
    lastAt = performance.now();
  }

  async function get(target: URL): Promise<ExploResponse> {
    await keepPace();
    try {
      const response = await fetch(target, {
        headers: { "explo-authorization": `Token ${token}`, accept: "application/json" },
        // If fetch followed a redirect, it could send the token to another host.
        redirect: "manual",
        signal: AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]),
      });
      hasAnswered = true;
      const { status, headers } = response;
      if (status === 200) return { status, headers, text: await bodyOf(response, url) };
      await response.body?.cancel();
      return { status, headers, text: "" };
    } catch (error) {
      if (error instanceof Failure) throw error;
      signal.throwIfAborted();
      const found = unreachable(url, error, unusedProxy);
      const { message, hint } = found ?? {
        message: `cannot reach ${urlText({ url })}: ${(error as Error).message}`,
        hint: "try again",
      };
      // If the hosted service has not responded yet, do not retry, because the URL may be wrong.
      const isFinal = found !== undefined && !hasAnswered && found.fault !== "reset";
      throw isFinal ? failed(message, hint) : temporary(message, hint);
    }
  }

  return async (number: number): Promise<ExploPage | undefined> => {
    const target = new URL("v2/api/customers/", url.href.endsWith("/") ? url : `${url.href}/`);
    target.search = new URLSearchParams({ page: String(number), page_size: String(pageSize) }).toString();
    let refusals = 0;
    return patiently(patience, async () => {
      const response = await get(target);
      if (response.status === 404 && number > 1) return undefined;
      if (response.status === 429) refusals += 1;
      return pageOf(response, url, refusals < MAX_REFUSALS);
    });
  };
}

/** A response of the hosted service. If the status is not 200, `text` is empty. */
type ExploResponse = Pick<Response, "status" | "headers"> & { readonly text: string };

async function bodyOf(response: Response, url: URL): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of response.body ?? []) {
    bytes += chunk.length;
    if (bytes > MAX_PAGE_BYTES)
      throw failed(`a page of ${urlText({ url })} is larger than 128 MiB`, "give a lower --explo-page-size");
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}

/**
 * @param mayWait whether `patiently` may retry the request after a rate-limit response
 * @throws Failure if the response is not a page
 */
function pageOf({ status, headers, text }: ExploResponse, url: URL, mayWait: boolean): ExploPage {
  const where = urlText({ url });
  if (status === 401 || status === 403) {
    const hint = "check that the token was copied completely, and is an API token of the hosted service";
    throw new Failure(`${where} rejects the token (${status})`, { exitCode: EXIT.denied, hint });
  }
  if (status === 429) {
    const cause = new ConnectError("", Code.ResourceExhausted, headers);
    if (retryAfterMs(cause) === undefined) cause.metadata.set("retry-after", String(LIMITED_S));
    throw failed(
      `${where} limits the rate of requests (429)`,
      "try again in a few minutes",
      mayWait ? cause : undefined,
    );
  }
  const refusal = `${where} responded with ${status}`;
  if (status >= 500 || status === 408) throw temporary(refusal, "try again");
  const moved = "the hosted service redirects: give the new URL as --explo-url";
  if (status !== 200) throw failed(refusal, headers.has("location") ? moved : "check --explo-url");
  const value = parsedJson(text);
  if (value === undefined) throw failed(`${where} did not return JSON`, "check --explo-url");
  const results = isObject(value) ? value["results"] : undefined;
  const customers = isObject(results) ? results["customers"] : undefined;
  if (!isObject(value) || !Array.isArray(customers))
    throw failed(`${url.href} did not return a list of customers`, "check --explo-url");
  const total = value["total_count"] ?? value["count"];
  return { customers, total: typeof total === "number" ? total : undefined };
}

/** Creates the failure of a request. @param cause the error that makes `patiently` retry; undefined for no retry */
function failed(message: string, hint: string, cause?: ConnectError): Failure {
  return new Failure(message, { exitCode: EXIT.unavailable, hint, cause });
}

function temporary(message: string, hint: string): Failure {
  return failed(message, hint, new ConnectError("", Code.Unavailable));
}
