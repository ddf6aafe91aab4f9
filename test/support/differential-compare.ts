import type { Outcome } from "./differential-servers.ts";

/** Deadlines are measured from when a server got to it; no more than this may lie between two servers. */
const TIMEOUT_TOLERANCE_MS = 1000;

/** What of two outcomes is not the same; undefined when nothing is. */
export function difference(lean: Outcome, connect: Outcome): { readonly [what: string]: unknown } | undefined {
  const found: { [what: string]: unknown } = {};
  const check = (what: string, a: unknown, b: unknown) => {
    if (JSON.stringify(a) !== JSON.stringify(b)) found[what] = { lean: a, connect: b };
  };
  check("end", lean.end, connect.end);
  check("status", lean.status, connect.status);
  check("informational", lean.informational, connect.informational);
  check("headers", lean.headers, connect.headers);
  check("trailers", lean.trailers, connect.trailers);
  check("body", lean.body.toString("latin1"), connect.body.toString("latin1"));
  check("effects", lean.effects.map(comparable), connect.effects.map(comparable));
  lean.effects.forEach((effect, i) => {
    const [a, b] = [effect["timeout"], connect.effects[i]?.["timeout"]];
    const near = typeof a === "number" && typeof b === "number" && Math.abs(a - b) < TIMEOUT_TOLERANCE_MS;
    if (!near) check("timeout", a, b);
  });
  return Object.keys(found).length === 0 ? undefined : found;
}

function comparable(effect: Outcome["effects"][number]): unknown {
  const { timeout, url, ...rest } = effect;
  // The two servers listen on ports of their own.
  return { ...rest, url: typeof url === "string" ? url.replace(/127\.0\.0\.1:\d+/, "SERVER") : url };
}
