import { relative } from "node:path";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** The files that take longest, the longest first; those that mostly wait are among them, so that others run meanwhile. */
const LONGEST = [
  "store",
  "unread-answers-deno",
  "replicas",
  "matrix-tokens",
  "abandoned-sessions",
  "faults-changes",
  "admin-revocation",
  "stalled-bodies",
  "matrix-validation",
  "matrix-access",
  "audit",
  "overload",
  "faults-connection",
  "admin",
  "strangers-log",
  "rate-limits",
  "auth-failures",
  "differential-malformed",
  "faults",
  "start-redis",
  "differential",
  "first-minute",
  "admin-groups",
  "admin-groups-kills",
  "dead-sessions",
  "lifecycle",
  "races",
  "differential-aborts",
  "open-redis",
  "matrix-groups",
  "workers",
  "store-cluster",
  "store-sentinel",
  "differential-fuzz",
  "outcome",
  "admin-groups-races",
  "admin-groups-scale",
  "reset-requests",
  "admin-groups-inputs",
  "secrets",
  "large-bodies",
  "broken-requests",
  "supervisor",
  "metrics",
  "unread-answers",
].map((name) => `test/${name}.test.ts`);

/**
 * Begins with the files that take longest, so that the end is not one of them alone. Vitest does so only where it has
 * the times of an earlier run, which a fresh clone has not.
 */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) => {
      const place = LONGEST.indexOf(relative(this.ctx.config.root, moduleId));
      return place < 0 ? LONGEST.length : place;
    };
    return (await super.sort(files)).sort((a, b) => rank(a) - rank(b));
  }
}
