/** If a call fails with one of these reasons, the service has done nothing. The same call may succeed later. */
export const REFUSALS: ReadonlySet<string> = new Set(["OVERLOADED", "RATE_LIMITED", "TOO_MANY_FAILURES"]);
