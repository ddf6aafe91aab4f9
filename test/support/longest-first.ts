import { basename } from "node:path";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** The files that take longest, up to the first dot of their names, the longest first; those that mostly wait are among them, so that others run meanwhile. */
const LONGEST = [
  "store-embedded",
  "store",
  "first-minute",
  "lifecycle",
  "admin-api-tokens",
  "tokens",
  "access",
  "cors",
  "metrics",
  "readme-commands",
  "faults-forgotten",
  "validation",
  "audit",
  "abandoned-sessions",
  "differential-malformed",
  "stalled-bodies",
  "proxies",
  "auth-failures",
  "replicas",
  "admin-revocation",
  "fair-shares",
  "start-redis",
  "overload",
  "admin",
  "framing",
  "admin-groups-inputs",
  "dead-sessions",
  "faults-changes",
  "workers",
  "rate-limits",
  "absent-shard",
  "faults",
  "supervisor",
  "store-cluster",
  "faults-connection",
  "strangers-log",
  "store-sentinel",
  "differential",
  "streams",
  "secrets",
  "given-up-answers",
  "hostile-json",
  "reset-requests",
  "outcome",
];

/**
 * Begins with the files that take longest, so that the end is not one of them alone. Vitest does so only where it has
 * the times of an earlier run, which a fresh clone has not.
 */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) => {
      const place = LONGEST.indexOf(basename(moduleId).split(".")[0] ?? "");
      return place < 0 ? LONGEST.length : place;
    };
    return (await super.sort(files)).sort((a, b) => rank(a) - rank(b));
  }
}
