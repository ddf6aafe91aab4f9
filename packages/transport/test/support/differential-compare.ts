import { printable } from "./differential-requests.ts";
import type { Outcome, Pair } from "./differential-servers.ts";
import type { RawRequest } from "./differential-wire.ts";
import { KNOWN_DIFFERENCES } from "./known-differences.ts";

/**
 * The tolerance for deadlines, in milliseconds. Each server measures a deadline from the time at which the server
 * itself reads the request.
 */
const TIMEOUT_TOLERANCE_MS = 4000;

/** Returns the differences between two outcomes; undefined if the outcomes are equal. */
function difference(ours: Outcome, connect: Outcome): { readonly [what: string]: unknown } | undefined {
  const found: { [what: string]: unknown } = {};
  const check = (what: string, a: unknown, b: unknown) => {
    if (JSON.stringify(a) !== JSON.stringify(b)) found[what] = { ours: a, connect: b };
  };
  check("end", ours.end, connect.end);
  check("status", ours.status, connect.status);
  check("informational", ours.informational, connect.informational);
  check("headers", ours.headers, connect.headers);
  check("trailers", ours.trailers, connect.trailers);
  check("body", ours.body.toString("latin1"), connect.body.toString("latin1"));
  check("effects", ours.effects.map(comparable), connect.effects.map(comparable));
  ours.effects.forEach((effect, i) => {
    const [a, b] = [effect["timeout"], connect.effects[i]?.["timeout"]];
    const near = typeof a === "number" && typeof b === "number" && Math.abs(a - b) < TIMEOUT_TOLERANCE_MS;
    if (!near) check("timeout", a, b);
  });
  return Object.keys(found).length === 0 ? undefined : found;
}

function comparable(effect: Outcome["effects"][number]): unknown {
  const { timeout, url, ...rest } = effect;
  // The two servers listen on different ports.
  return { ...rest, url: typeof url === "string" ? url.replace(/127\.0\.0\.1:\d+/, "SERVER") : url };
}

/** Sends a request to both servers, and returns the outcome of `ours`. @throws if there is an unknown difference */
export async function exchangeAlike(pair: Pair, request: RawRequest): Promise<Outcome> {
  const { ours, connect } = await pair.exchange(request);
  const found = difference(ours, connect);
  if (found && !KNOWN_DIFFERENCES.some(({ covers }) => covers(request, { ours, connect }))) {
    throw new Error(JSON.stringify({ found, request: printable(request) }, undefined, 2));
  }
  // Only a stream may have no answer. On both servers, Connect handles streams, and does not answer if it cannot encode
  // an error.
  if (ours.end === "nothing came" && !request.target.includes("/Watch"))
    throw new Error(`no answer to ${JSON.stringify(printable(request))}`);
  return ours;
}
